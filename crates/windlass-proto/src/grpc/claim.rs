//! Asking for work, and signs of life.

use windlass_core::limits::LEASES_NAMED_MAX;
use windlass_core::{Name, TaskId};

use super::names::{all, parsed};
use super::v1::{ClaimRequest, HeartbeatRequest, Hello, LeaseRef, Queue};
use crate::rest::{self, BeatBody, ClaimBody, ClaimQueues, Claiming, Invalid, Seconds};

impl ClaimRequest {
    pub fn check(self) -> Result<Claiming, Invalid> {
        let mut body = wanted(&self.worker_id, &self.queues, &self.types, self.strict)?;
        body.max = self.max.map(u64::from);
        body.wait_seconds = Some(Seconds(self.wait_seconds));
        body.lease_seconds = self.lease_seconds.map(Seconds);
        body.check()
    }
}

impl Hello {
    /// What the worker wants, as a claim, and the beat that registers it.
    pub fn check(self) -> Result<(Claiming, BeatBody), Invalid> {
        if self.incarnation == 0 {
            return Err(Invalid::out_of_range("incarnation", "must be a random number other than 0"));
        }
        if self.leases.iter().any(|lease| lease.checkpoint.is_some()) {
            return Err(Invalid::malformed("leases.checkpoint", "belongs to Extension and to Heartbeat"));
        }
        let mut body = wanted(&self.worker_id, &self.queues, &self.types, self.strict)?;
        body.lease_seconds = self.lease_seconds.map(Seconds);
        let claiming = body.check()?;
        let beat = BeatBody {
            worker_id: None,
            incarnation: self.incarnation,
            host: self.host,
            pid: self.pid,
            version: self.version,
            queues: claiming.queues.iter().map(|queue| queue.name.clone()).collect(),
            types: claiming.types.clone(),
            slots: self.slots,
            cpu: None,
            memory_bytes: None,
            leases: leases(self.leases)?,
            leaving: false,
        };
        Ok((claiming, beat))
    }
}

impl HeartbeatRequest {
    /// The worker and its beat.
    pub fn check(self) -> Result<(Name, BeatBody), Invalid> {
        let types: Vec<Name> = all("types", &self.types)?;
        let beat = BeatBody {
            worker_id: None,
            incarnation: self.incarnation,
            host: self.host,
            pid: self.pid,
            version: self.version,
            queues: all("queues", &self.queues)?,
            types: Some(types).filter(|types| !types.is_empty()),
            slots: self.slots,
            cpu: self.cpu,
            memory_bytes: self.memory_bytes,
            leases: leases(self.leases)?,
            leaving: self.leaving,
        };
        Ok((parsed("worker_id", &self.worker_id)?, beat))
    }
}

fn wanted(worker: &str, queues: &[Queue], types: &[String], strict: bool) -> Result<ClaimBody, Invalid> {
    let mut body = ClaimBody::new(parsed("worker_id", worker)?);
    body.strict = strict;
    if !queues.is_empty() {
        let queue = |queue: &Queue| Ok((parsed("queues", &queue.name)?, queue.weight.unwrap_or(1).into()));
        body.queues = ClaimQueues(queues.iter().map(queue).collect::<Result<_, Invalid>>()?);
    }
    let types: Vec<Name> = all("types", types)?;
    body.types = Some(types).filter(|types| !types.is_empty());
    Ok(body)
}

fn leases(leases: Vec<LeaseRef>) -> Result<Vec<rest::LeaseRef>, Invalid> {
    if leases.len() > LEASES_NAMED_MAX {
        return Err(Invalid::out_of_range("leases", format!("at most {LEASES_NAMED_MAX} at once")));
    }
    let lease = |lease: LeaseRef| {
        let id: TaskId = parsed("leases.id", &lease.id)?;
        let checkpoint = rest::checkpoint("leases.checkpoint", lease.checkpoint)?;
        Ok(rest::LeaseRef { id, lease: lease.lease, checkpoint_base64: checkpoint.map(rest::Base64) })
    };
    leases.into_iter().map(lease).collect()
}
