//! Turns credits into pushed tasks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tonic::Status;
use windlass_broker::{ClaimRequest, Error, Session};
use windlass_core::Task;
use windlass_core::limits::{CLAIM_TASKS_MAX, WORK_MESSAGE_BYTES_MAX};
use windlass_proto::grpc::v1::work_response::Message;
use windlass_proto::grpc::v1::{LeasedTask, Stopped, Tasks, WorkResponse};

use super::credits::{Credits, Wish};
use super::outbound::{UNREAD_MAX, too_slow};
use crate::grpc::refusal::status;
use crate::server::budget::Account;

/// Milliseconds until the next claim when the broker is busy; spread, so that its workers do not come back all at once.
const BUSY_PAUSE_MS: std::ops::RangeInclusive<u64> = 100..=1000;

/// Runs until the session is over or the broker gives out no more tasks. An error ends the stream.
pub(super) async fn run(
    session: Arc<Session>,
    account: Arc<Account>,
    claim: ClaimRequest,
    credits: Arc<Credits>,
    tasks: mpsc::Sender<WorkResponse>,
) -> Result<(), Status> {
    loop {
        let max = match credits.next().await {
            Wish::Tasks(count) => count.min(CLAIM_TASKS_MAX),
            Wish::Stop => {
                // In line with the tasks, so that none can come after it.
                if tasks.send(message(Message::Stopped(Stopped {}))).await.is_err() {
                    return Ok(());
                }
                continue;
            }
        };
        let Ok(room) = tasks.reserve().await else { return Ok(()) };
        let claiming = async {
            // While the memory budget is short, no tasks are read that may have to wait for the worker.
            match account.budget().is_short() {
                true => Err(Error::Busy),
                false => session.claim(ClaimRequest { max, ..claim.clone() }).await,
            }
        };
        let claimed = tokio::select! {
            claimed = claiming => claimed,
            () = credits.stopping() => continue,
        };
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(Error::Stopping) => return Ok(()),
            Err(Error::Busy) => {
                drop(room);
                // sleep: the worker keeps its credits and its stream, and is pushed tasks when there is time for it.
                tokio::time::sleep(Duration::from_millis(rand::random_range(BUSY_PAUSE_MS))).await;
                continue;
            }
            Err(error) => return Err(status(error)),
        };
        if session.is_over() {
            return Ok(());
        }
        credits.spend(claimed.len());
        let _held = account.hold(claimed.iter().map(Task::bytes).sum());
        push(&session, claimed, room, &tasks).await?;
    }
}

async fn push(
    session: &Session,
    mut claimed: Vec<Task>,
    room: mpsc::Permit<'_, WorkResponse>,
    tasks: &mpsc::Sender<WorkResponse>,
) -> Result<(), Status> {
    let mut room = Some(room);
    while !claimed.is_empty() {
        let room = match room.take() {
            Some(room) => Ok(room),
            None => match tokio::time::timeout(UNREAD_MAX, tasks.reserve()).await {
                Ok(Ok(room)) => Ok(room),
                Ok(Err(_)) => Err(Status::cancelled("the stream is closed")),
                Err(_) => Err(too_slow()),
            },
        };
        let room = match room {
            Ok(room) => room,
            Err(ended) => {
                session.give_back(&claimed).await.map_err(status)?;
                return Err(ended);
            }
        };
        let rest = claimed.split_off(fitting(&claimed));
        let now = std::mem::replace(&mut claimed, rest);
        let now = now.into_iter().map(LeasedTask::from).collect();
        room.send(message(Message::Tasks(Tasks { tasks: now })));
    }
    Ok(())
}

/// How many tasks go into one message: at least one.
fn fitting(tasks: &[Task]) -> usize {
    let mut bytes = 0;
    let fits = |task: &&Task| {
        bytes += task.bytes();
        bytes <= WORK_MESSAGE_BYTES_MAX
    };
    tasks.iter().take_while(fits).count().max(1)
}

fn message(message: Message) -> WorkResponse {
    WorkResponse { message: Some(message) }
}
