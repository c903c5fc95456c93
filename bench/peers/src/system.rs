//! What is compared: each system with one of its settings.

use std::fmt;

use crate::drivers::amqp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    EchoTcp,
    EchoHttp,
    EchoGrpc,
    Windlass {
        over: Transport,
        durability: Durability,
    },
    Beanstalkd(Fsync),
    RedisLists(Aof),
    RedisStreams(Aof),
    /// What a task of Windlass is in Redis, by plain commands.
    RedisPlain(Aof),
    /// Windlass in library mode.
    Library(Aof),
    Nats {
        always: bool,
    },
    RabbitMq(amqp::Kind),
    BullMq(Aof),
    Celery(Aof),
    Rq(Aof),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Frames,
    Grpc,
    Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    Sync,
    Interval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fsync {
    Each,
    Every50Ms,
    NoLog,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aof {
    Always,
    EverySecond,
}

/// Everything, in the order of the tables: the durable setting before the fast one.
pub(crate) const ALL: &[System] = {
    use System::*;
    &[
        EchoTcp,
        EchoHttp,
        EchoGrpc,
        Windlass { over: Transport::Frames, durability: Durability::Sync },
        Windlass { over: Transport::Frames, durability: Durability::Interval },
        Windlass { over: Transport::Grpc, durability: Durability::Sync },
        Windlass { over: Transport::Grpc, durability: Durability::Interval },
        Windlass { over: Transport::Rest, durability: Durability::Sync },
        Windlass { over: Transport::Rest, durability: Durability::Interval },
        Beanstalkd(Fsync::Each),
        Beanstalkd(Fsync::Every50Ms),
        Beanstalkd(Fsync::NoLog),
        RedisLists(Aof::Always),
        RedisLists(Aof::EverySecond),
        RedisStreams(Aof::Always),
        RedisStreams(Aof::EverySecond),
        RedisPlain(Aof::Always),
        RedisPlain(Aof::EverySecond),
        Library(Aof::Always),
        Library(Aof::EverySecond),
        Nats { always: true },
        Nats { always: false },
        RabbitMq(amqp::Kind::Quorum),
        RabbitMq(amqp::Kind::Durable),
        RabbitMq(amqp::Kind::Transient),
        BullMq(Aof::Always),
        BullMq(Aof::EverySecond),
        Celery(Aof::Always),
        Celery(Aof::EverySecond),
        Rq(Aof::Always),
        Rq(Aof::EverySecond),
    ]
};

/// The names that `--only` takes.
pub(crate) const PRODUCTS: [&str; 10] =
    ["windlass", "library", "beanstalkd", "redis", "nats", "rabbitmq", "bullmq", "celery", "rq", "echo"];

impl System {
    pub(crate) fn product(self) -> &'static str {
        match self {
            System::EchoTcp | System::EchoHttp | System::EchoGrpc => "echo",
            System::Windlass { .. } => "windlass",
            System::Beanstalkd(_) => "beanstalkd",
            System::RedisLists(_) | System::RedisStreams(_) | System::RedisPlain(_) => "redis",
            System::Library(_) => "library",
            System::Nats { .. } => "nats",
            System::RabbitMq(_) => "rabbitmq",
            System::BullMq(_) => "bullmq",
            System::Celery(_) => "celery",
            System::Rq(_) => "rq",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            System::EchoTcp => "bare TCP echo",
            System::EchoHttp => "bare HTTP echo",
            System::EchoGrpc => "bare gRPC echo",
            System::Windlass { over: Transport::Frames, .. } => "Windlass, TCP frames",
            System::Windlass { over: Transport::Grpc, .. } => "Windlass, gRPC",
            System::Windlass { over: Transport::Rest, .. } => "Windlass, REST",
            System::Beanstalkd(_) => "beanstalkd",
            System::RedisLists(_) => "Redis lists",
            System::RedisStreams(_) => "Redis streams",
            System::RedisPlain(_) => "Redis, the writes of a Windlass task",
            System::Library(_) => "Windlass, library on Redis",
            System::Nats { .. } => "NATS JetStream",
            System::RabbitMq(amqp::Kind::Quorum) => "RabbitMQ quorum",
            System::RabbitMq(_) => "RabbitMQ classic",
            System::BullMq(_) => "BullMQ",
            System::Celery(_) => "Celery",
            System::Rq(_) => "RQ",
        }
    }

    /// When an acknowledged task is on the disk.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            System::EchoTcp | System::EchoHttp | System::EchoGrpc => "–",
            System::Windlass { durability: Durability::Sync, .. } => "sync",
            System::Windlass { durability: Durability::Interval, .. } => "interval:50ms",
            System::Beanstalkd(Fsync::Each) => "-b -f0",
            System::Beanstalkd(Fsync::Every50Ms) => "-b -f50",
            System::Beanstalkd(Fsync::NoLog) => "no log",
            System::RedisLists(aof)
            | System::RedisStreams(aof)
            | System::RedisPlain(aof)
            | System::Library(aof)
            | System::BullMq(aof)
            | System::Celery(aof)
            | System::Rq(aof) => aof.word(),
            System::Nats { always: true } => "sync always",
            System::Nats { always: false } => "sync every 2 min",
            System::RabbitMq(amqp::Kind::Quorum) => "Raft log, confirms",
            System::RabbitMq(amqp::Kind::Durable) => "durable, confirms",
            System::RabbitMq(amqp::Kind::Transient) => "transient, confirms",
        }
    }

    /// Whether an acknowledged task has been synced to the disk, as far as the setting promises.
    pub(crate) fn durable(self) -> bool {
        match self {
            System::EchoTcp | System::EchoHttp | System::EchoGrpc => false,
            System::Windlass { durability, .. } => durability == Durability::Sync,
            System::Beanstalkd(fsync) => fsync == Fsync::Each,
            System::RedisLists(aof)
            | System::RedisStreams(aof)
            | System::RedisPlain(aof)
            | System::Library(aof)
            | System::BullMq(aof)
            | System::Celery(aof)
            | System::Rq(aof) => aof == Aof::Always,
            System::Nats { always } => always,
            System::RabbitMq(kind) => kind != amqp::Kind::Transient,
        }
    }

    /// Driven by a program of its own language.
    pub(crate) fn scripted(self) -> bool {
        matches!(self, System::BullMq(_) | System::Celery(_) | System::Rq(_))
    }
}

impl Aof {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Aof::Always => "appendfsync always",
            Aof::EverySecond => "appendfsync everysec",
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.setting() {
            "–" => f.write_str(self.name()),
            setting => write!(f, "{} ({setting})", self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own_and_a_known_product() {
        let names: HashSet<String> = ALL.iter().map(System::to_string).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|system| PRODUCTS.contains(&system.product())));
    }
}
