//! Tests of the running binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod backup;
mod bad_input;
mod bench;
mod broker_process;
mod cli;
mod config;
mod dashboard;
mod dead_groups;
mod events;
mod events_client;
mod frames;
mod grpc_client;
mod grpc_limits;
mod grpc_operations;
mod grpc_python;
mod grpc_schedules;
mod grpc_tasks;
mod grpc_work;
mod http;
mod library;
mod metrics;
mod migrate;
mod operation_cli;
mod parity;
mod python;
mod readme;
mod redis;
mod rest_limits;
mod rest_lists;
mod rest_operations;
mod rest_schedules;
mod rest_submit;
mod rest_system;
mod rest_unique;
mod rest_work;
mod rest_workflows;
mod running;
mod salvage;
mod schedule_cli;
mod tcp;
mod tcp_bad_input;
mod top;
mod traces;
mod worker;
