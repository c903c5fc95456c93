//! Calls about acts on many tasks.

use windlass_core::{Class, Name};
use windlass_proto::grpc::v1::{
    self, CancelOperationRequest, GetOperationRequest, ListOperationsRequest, StartOperationRequest,
};
use windlass_proto::rest::{
    Invalid, OperationBody, OperationInput, OperationPage, PreviewBody, PriorityInput, SampleBody,
};

use super::read::{self, optional, parsed, since, small, time};
use super::tasks::rows;
use super::{Grpc, said, soon};
use crate::error::Error;

impl Grpc {
    pub(crate) async fn start_operation(&self, order: &OperationInput) -> Result<OperationBody, Error> {
        shown(said(self.admin.clone().start_operation(soon(asked(order)?)).await)?)
    }

    pub(crate) async fn preview_operation(&self, order: &OperationInput) -> Result<PreviewBody, Error> {
        let answer = said(self.admin.clone().preview_operation(soon(asked(order)?)).await)?;
        Ok(PreviewBody {
            dry_run: true,
            matched: answer.matched,
            matched_at_least: answer.matched_at_least,
            would_change: answer.would_change,
            would_change_at_least: answer.would_change_at_least,
            sample: answer.sample.into_iter().map(sample).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) async fn operation(&self, id: &Name) -> Result<OperationBody, Error> {
        let request = soon(GetOperationRequest { id: id.to_string() });
        shown(said(self.admin.clone().get_operation(request).await)?)
    }

    pub(crate) async fn operations(
        &self,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<OperationPage, Error> {
        let cursor = cursor.map(str::to_owned);
        let request = ListOperationsRequest { running: false, limit: Some(rows(limit)), cursor };
        let answer = said(self.admin.clone().list_operations(soon(request)).await)?;
        let items = answer.operations.into_iter().map(shown).collect::<Result<_, _>>()?;
        Ok(OperationPage { items, next_cursor: answer.next_cursor })
    }

    pub(crate) async fn cancel_operation(&self, id: &Name) -> Result<OperationBody, Error> {
        let request = soon(CancelOperationRequest { id: id.to_string() });
        shown(said(self.admin.clone().cancel_operation(request).await)?)
    }
}

fn asked(order: &OperationInput) -> Result<StartOperationRequest, Error> {
    let priority = |priority: &PriorityInput| {
        let number = match priority {
            PriorityInput::Number(number) => u32::try_from(*number).ok(),
            PriorityInput::Class(word) => Class::parse(word).map(|class| class.priority().0.into()),
        };
        number
            .ok_or_else(|| Invalid::out_of_range("priority", "must be 0–255, critical, high, normal or low"))
    };
    Ok(StartOperationRequest {
        action: order.action.clone(),
        filter: order.filter.clone(),
        priority: order.priority.as_ref().map(priority).transpose()?,
        queue: order.queue.as_ref().map(Name::to_string),
        by: order.by.clone(),
    })
}

fn shown(operation: v1::Operation) -> Result<OperationBody, Error> {
    let priority = operation.priority.map(|number| small("priority", number)).transpose()?;
    Ok(OperationBody {
        id: parsed("id", &operation.id)?,
        state: operation.state,
        action: operation.action,
        filter: operation.filter,
        priority,
        queue: optional("queue", operation.queue)?,
        by: operation.by,
        created_at: since(operation.created_at),
        updated_at: since(operation.updated_at),
        ended_at: time(operation.ended_at),
        reason: operation.reason,
        expected: operation.expected,
        expected_at_least: operation.expected_at_least,
        seen: operation.seen,
        changed: operation.changed,
        skipped: operation.skipped,
        failed: operation.failed,
        progress: operation.progress,
        rate_per_second: operation.rate_per_second,
    })
}

fn sample(sample: v1::OperationSample) -> Result<SampleBody, Error> {
    Ok(SampleBody {
        id: parsed("id", &sample.id)?,
        kind: parsed("type", &sample.r#type)?,
        queue: parsed("queue", &sample.queue)?,
        state: read::state(sample.state)?,
        priority: small("priority", sample.priority)?,
        created_at: since(sample.created_at),
        updated_at: since(sample.updated_at),
        error: sample.error.map(Into::into),
    })
}
