//! Batches that go up: outcomes, committed at once, and extensions.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::future::join_all;
use tonic::Status;
use windlass_broker::{Broker, Error, Keep, Session};
use windlass_core::limits::BATCH_TASKS_MAX;
use windlass_proto::grpc::v1::{Ack, Extended, Extensions, Outcomes, Refusal};
use windlass_proto::rest::{Fault, Invalid};

use super::texts;
use crate::api::outcomes::{save, token};
use crate::api::problem::Refused;
use crate::grpc::refusal::status;
use crate::grpc::worker;

/// Commits a batch; the acknowledgement tells what was refused.
pub(super) async fn commit(session: &Session, batch: Outcomes, result_max: usize) -> Ack {
    let mut ack = Ack { sequence: batch.sequence, refusals: Vec::new() };
    let mut reports = Vec::with_capacity(batch.outcomes.len());
    let mut places = Vec::with_capacity(batch.outcomes.len());
    for (index, outcome) in batch.outcomes.into_iter().enumerate() {
        let id = outcome.id.clone();
        match outcome.check(result_max).map_err(Refused::from).and_then(worker::finish) {
            Ok(report) => {
                reports.push(report);
                places.push((index, id));
            }
            Err(refused) => ack.refusals.push(refusal(index, id, refused)),
        }
    }
    if reports.is_empty() {
        return ack;
    }
    match session.finish(reports).await {
        Ok(answers) => {
            let refused = places.into_iter().zip(answers).filter_map(|((index, id), answer)| {
                answer.err().map(|error| refusal(index, id, error.into()))
            });
            ack.refusals.extend(refused);
        }
        // Nothing of the batch was taken; most of these pass with time, and the error says so.
        Err(error) => {
            let each = |(index, id)| refusal(index, id, error.clone().into());
            ack.refusals.extend(places.into_iter().map(each));
        }
    }
    ack.refusals.sort_unstable_by_key(|refusal| refusal.index);
    ack
}

/// Keeps leases; whatever cannot be kept is named in the answer.
pub(super) async fn extend(session: &Session, batch: Extensions) -> Result<Extended, Status> {
    if batch.extensions.len() > BATCH_TASKS_MAX {
        let message = format!("has {} extensions, {BATCH_TASKS_MAX} are allowed", batch.extensions.len());
        return Err(Invalid::new(Fault::TooLarge, "extensions", message).into());
    }
    let mut extended = Extended { sequence: batch.sequence, ..Extended::default() };
    let mut keeps = Vec::with_capacity(batch.extensions.len());
    let mut saves = Vec::new();
    for (index, extension) in batch.extensions.into_iter().enumerate() {
        let (id, lease) = (extension.id.clone(), extension.lease.clone());
        match (extension.check(), token(&lease)) {
            (Ok((id, extending)), Ok(token)) => {
                let keep = Keep { id, token, progress: extending.progress };
                saves.extend(extending.checkpoint.map(|bytes| (index, keep.clone(), bytes)));
                keeps.push(keep);
            }
            (Ok(_), Err(_)) => extended.lost.push(id),
            (Err(invalid), _) => extended.refusals.push(refusal(index, id, invalid.into())),
        }
    }
    // Of several checkpoints of one lease the last one stays.
    let mut newest = HashSet::new();
    saves.reverse();
    saves.retain(|(_, keep, _)| newest.insert((keep.id.clone(), keep.token)));
    // Whether a checkpoint is kept has nothing to do with the lease: it is extended in any case.
    for (index, id, error) in save_all(session.broker(), saves).await {
        extended.refusals.push(refusal(index, id, error.into()));
    }
    let pulse = session.extend(keeps, batch.cpu, batch.memory_bytes).await.map_err(status)?;
    extended.lost.extend(texts(&pulse.lost));
    extended.cancel = texts(&pulse.cancel);
    Ok(extended)
}

/// Saves checkpoints, all of them at once; those that could not be.
async fn save_all(broker: &Broker, saves: Vec<(usize, Keep, Bytes)>) -> Vec<(usize, String, Error)> {
    let save = async |(index, keep, bytes): (usize, Keep, Bytes)| {
        let saved = save(broker, &keep.id, keep.token, bytes).await;
        saved.err().map(|error| (index, keep.id.to_string(), error))
    };
    join_all(saves.into_iter().map(save)).await.into_iter().flatten().collect()
}

fn refusal(index: usize, id: String, refused: Refused) -> Refusal {
    Refusal { index: index as u32, id, error: Some(refused.into_problem().into()) }
}
