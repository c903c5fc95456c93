//! Arguments of the commands that produce tasks or work on them: gRPC, or REST where only that is open.

use windlass_client::{Client, Error};

use super::args::Connect;
use super::error::Failure;

const GRPC_PORT: u16 = 9090;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Wire {
    #[command(flatten)]
    pub(crate) connect: Connect,
    /// Address of the gRPC interface [default: port 9090 of the broker]
    #[arg(long, value_name = "URL", env = "WINDLASS_GRPC_SERVER", hide_env_values = true)]
    grpc_server: Option<String>,
    /// Use REST instead of gRPC
    #[arg(long)]
    pub(crate) rest: bool,
}

impl Wire {
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let client = if self.rest {
            Client::rest(&self.connect.server)
        } else {
            Client::connect(&self.grpc_address()?)
        };
        client.map_err(|error| self.failure(error))
    }

    /// As given, or on the same host as the REST interface.
    pub(crate) fn grpc_address(&self) -> Result<String, Failure> {
        if let Some(address) = &self.grpc_server {
            return Ok(address.clone());
        }
        let server = &self.connect.server;
        // For its judgement of the address.
        self.connect.client()?;
        let host = server
            .split_once("://")
            .map_or(server.as_str(), |(_, rest)| rest)
            .split('/')
            .next()
            .unwrap_or_default();
        // A port is what follows the last colon, unless that is inside an IPv6 address.
        let host = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => name,
            _ => host,
        };
        if host.is_empty() {
            return Err(Failure::usage(format!("{server}: names no host")));
        }
        Ok(format!("http://{host}:{GRPC_PORT}"))
    }

    /// With a hint that fits the wire.
    pub(crate) fn failure(&self, error: Error) -> Failure {
        let unreachable = matches!(error, Error::Unreachable { .. }) && !self.rest;
        let failure = Failure::from(error);
        if !unreachable {
            return failure;
        }
        let hint = match self.grpc_address() {
            Ok(address) => format!(
                "no answer at {address}: start a broker with `windlass dev`, name one with --server or\n\
                 --grpc-server, or say --rest"
            ),
            Err(_) => "say --rest to use REST".to_owned(),
        };
        failure.hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grpc_address_is_that_of_the_broker() {
        let wire = |server: &str| Wire {
            connect: Connect { server: server.to_owned() },
            grpc_server: None,
            rest: false,
        };
        for (server, address) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:9090"),
            ("https://broker.example.org/", "http://broker.example.org:9090"),
            ("http://[::1]:8080", "http://[::1]:9090"),
            ("http://[::1]", "http://[::1]:9090"),
        ] {
            assert_eq!(wire(server).grpc_address().unwrap(), address);
        }
        for wrong in ["http://:80", "ftp://x", "here"] {
            assert!(wire(wrong).grpc_address().is_err(), "{wrong}");
        }
    }
}
