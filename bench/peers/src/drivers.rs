//! One file per system.

pub(crate) mod amqp;
pub(crate) mod beanstalkd;
pub(crate) mod echo;
pub(crate) mod frames;
pub(crate) mod grpc;
pub(crate) mod library;
pub(crate) mod nats;
pub(crate) mod redis;
pub(crate) mod rest;
