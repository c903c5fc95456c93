//! What callers are told of their operations, once these are applied.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::claims::{Delivery, Request};
use super::command::Command;
use super::engine::Shared;
use super::inbox::{Op, Reply};
use super::machine::{Machine, Output};
use crate::store::{
    Committed, Error, Inserted, LimitWritten, OperationWritten, Restored, ScheduleWritten, Settled,
    WorkflowInserted,
};

/// An answer that is sent when the state is free again.
pub(super) enum Answer {
    Inserted(oneshot::Sender<Result<Vec<Inserted>, Error>>, Result<Vec<Inserted>, Error>),
    Claimed(Request, Delivery),
    Committed(oneshot::Sender<Result<Vec<Committed>, Error>>, Result<Vec<Committed>, Error>),
    Paused(oneshot::Sender<Result<(), Error>>),
    Scheduled(oneshot::Sender<Result<ScheduleWritten, Error>>, Result<ScheduleWritten, Error>),
    Operated(oneshot::Sender<Result<OperationWritten, Error>>, Result<OperationWritten, Error>),
    Limited(oneshot::Sender<Result<LimitWritten, Error>>, LimitWritten),
    Settled(oneshot::Sender<Result<Vec<Settled>, Error>>, Vec<Settled>),
    Workflow(oneshot::Sender<Result<WorkflowInserted, Error>>, Result<WorkflowInserted, Error>),
    Restored(oneshot::Sender<Result<Vec<Restored>, Error>>, Result<Vec<Restored>, Error>),
}

impl Answer {
    pub(super) fn send(self) {
        // A caller who went away needs no answer; leased tasks that cannot be delivered go back by themselves.
        match self {
            Answer::Inserted(reply, inserted) => drop(reply.send(inserted)),
            Answer::Claimed(request, delivery) => request.answer(Ok(delivery)),
            Answer::Committed(reply, committed) => drop(reply.send(committed)),
            Answer::Paused(reply) => drop(reply.send(Ok(()))),
            Answer::Scheduled(reply, written) => drop(reply.send(written)),
            Answer::Operated(reply, written) => drop(reply.send(written)),
            Answer::Limited(reply, written) => drop(reply.send(Ok(written))),
            Answer::Settled(reply, settled) => drop(reply.send(Ok(settled))),
            Answer::Workflow(reply, inserted) => drop(reply.send(inserted)),
            Answer::Restored(reply, restored) => drop(reply.send(restored)),
        }
    }
}

/// Puts claims that came out empty back in line, while the state is locked, and prepares the other answers.
pub(super) fn settle(shared: &Arc<Shared>, machine: &Machine, op: Op, output: Output) -> Option<Answer> {
    match (op.reply, output) {
        (Reply::Claimed(request), Output::Claimed(tasks)) => {
            let Command::Claim { claim, .. } = op.command else { return None };
            if tasks.is_empty() {
                // It may have found nothing but expired tasks, as many as one claim may cancel.
                if machine.has_work(&claim) {
                    shared.serve_woken(claim, request);
                } else {
                    shared.wait(claim, request);
                }
                return None;
            }
            Some(Answer::Claimed(request, Delivery::new(tasks, shared)))
        }
        (Reply::Inserted(reply), Output::Inserted(inserted)) => Some(Answer::Inserted(reply, Ok(inserted))),
        (Reply::Inserted(reply), Output::TooManyLanes) => {
            Some(Answer::Inserted(reply, Err(Error::TooManyLanes)))
        }
        (Reply::Committed(reply), Output::Committed(committed)) => {
            Some(Answer::Committed(reply, Ok(committed)))
        }
        (Reply::Committed(reply), Output::TooManyLanes) => {
            Some(Answer::Committed(reply, Err(Error::TooManyLanes)))
        }
        (Reply::Settled(reply), Output::Settled(settled)) => Some(Answer::Settled(reply, settled)),
        (Reply::Paused(reply), _) => Some(Answer::Paused(reply)),
        (Reply::Limited(reply), Output::Limited(written)) => Some(Answer::Limited(reply, written)),
        (Reply::Scheduled(reply), Output::Scheduled(written)) => Some(Answer::Scheduled(reply, Ok(written))),
        (Reply::Scheduled(reply), Output::TooManyLanes) => {
            Some(Answer::Scheduled(reply, Err(Error::TooManyLanes)))
        }
        (Reply::Operated(reply), Output::Operated(written)) => Some(Answer::Operated(reply, Ok(written))),
        (Reply::Operated(reply), Output::TooManyLanes) => {
            Some(Answer::Operated(reply, Err(Error::TooManyLanes)))
        }
        (Reply::Workflow(reply), Output::Workflow(inserted)) => Some(Answer::Workflow(reply, Ok(inserted))),
        (Reply::Workflow(reply), Output::TooManyLanes) => {
            Some(Answer::Workflow(reply, Err(Error::TooManyLanes)))
        }
        (Reply::Restored(reply), Output::Restored(restored)) => Some(Answer::Restored(reply, Ok(restored))),
        (Reply::Restored(reply), Output::TooManyLanes) => {
            Some(Answer::Restored(reply, Err(Error::TooManyLanes)))
        }
        _ => None,
    }
}
