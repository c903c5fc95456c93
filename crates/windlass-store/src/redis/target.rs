//! Where to connect: one server, the primary that sentinels name, or the nodes of a cluster.
//!
//! A [`Wire`] is a connection that mends itself. It never sends a command twice behind the back of `link.rs`, but for a cluster:
//! there the client library follows moved slots and asks again by itself, so on a cluster every call says that it may be a
//! repeated one ([`Wire::repeats`]).

use std::sync::Arc;

use parking_lot::Mutex;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection, PubSub};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::sentinel::SentinelClient;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult,
    ServerErrorKind, Value,
};

use super::link::{ANSWER_WAIT, PAUSE_MAX, is_cut_off};

#[derive(Clone)]
pub(super) enum Target {
    Server(Box<Client>),
    /// Clones ask the same sentinels.
    Sentinel(Arc<Sentinels>),
    /// The client, and the nodes that were named, one of which is asked for hints.
    Cluster(Box<ClusterClient>, Vec<Client>),
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Target::Server(_) => "Server",
            Target::Sentinel(_) => "Sentinel",
            Target::Cluster(..) => "Cluster",
        })
    }
}

/// Who knows the primary, and the connection to the one that they named last.
pub(super) struct Sentinels {
    asked: tokio::sync::Mutex<SentinelClient>,
    current: [Mutex<Option<(u64, MultiplexedConnection)>>; 2],
}

/// Which of the connections to the primary.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Shared,
    /// For calls that hold up everything behind them.
    Apart,
}

#[derive(Clone)]
pub(super) enum Wire {
    Server(ConnectionManager),
    Sentinel(Arc<Sentinels>, Way),
    Cluster(ClusterConnection),
}

impl Target {
    pub(super) fn sentinel(client: SentinelClient) -> Target {
        Target::Sentinel(Arc::new(Sentinels {
            asked: tokio::sync::Mutex::new(client),
            current: Default::default(),
        }))
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Target::Cluster(..))
    }

    pub(super) async fn connect(&self) -> RedisResult<Wire> {
        match self {
            Target::Server(client) => {
                let config = ConnectionManagerConfig::new()
                    .set_number_of_retries(1)
                    .set_max_delay(PAUSE_MAX)
                    .set_connection_timeout(Some(ANSWER_WAIT))
                    .set_response_timeout(Some(ANSWER_WAIT));
                Ok(Wire::Server(ConnectionManager::new_with_config((**client).clone(), config).await?))
            }
            Target::Sentinel(sentinels) => {
                sentinels.primary(Way::Shared).await?;
                Ok(Wire::Sentinel(Arc::clone(sentinels), Way::Shared))
            }
            Target::Cluster(client, _) => Ok(Wire::Cluster(client.get_async_connection().await?)),
        }
    }

    /// A connection of its own.
    pub(super) async fn connect_apart(&self) -> RedisResult<Wire> {
        match self {
            Target::Sentinel(sentinels) => {
                sentinels.primary(Way::Apart).await?;
                Ok(Wire::Sentinel(Arc::clone(sentinels), Way::Apart))
            }
            _ => self.connect().await,
        }
    }

    /// A connection that hears what is published. Every node of a cluster hears all of it.
    pub(super) async fn pubsub(&self) -> RedisResult<PubSub> {
        match self {
            Target::Server(client) => client.get_async_pubsub().await,
            Target::Sentinel(sentinels) => {
                let client = sentinels.asked.lock().await.async_get_client().await?;
                client.get_async_pubsub().await
            }
            Target::Cluster(_, nodes) => {
                let mut last = RedisError::from((ErrorKind::InvalidClientConfig, "no node was named"));
                for node in nodes {
                    match node.get_async_pubsub().await {
                        Ok(pubsub) => return Ok(pubsub),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }
}

impl Sentinels {
    /// The connection to the primary, and its number.
    async fn primary(&self, way: Way) -> RedisResult<(u64, MultiplexedConnection)> {
        let kept = &self.current[way as usize];
        if let Some(current) = kept.lock().clone() {
            return Ok(current);
        }
        let mut asked = self.asked.lock().await;
        // Others may have asked meanwhile.
        if let Some(current) = kept.lock().clone() {
            return Ok(current);
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER_WAIT))
            .set_response_timeout(Some(ANSWER_WAIT));
        let connection = asked.get_async_connection_with_config(&config).await?;
        let current = (rand::random(), connection);
        *kept.lock() = Some(current.clone());
        Ok(current)
    }

    /// Leaves a server that broke off, or that is no primary any more: the sentinels are asked again.
    fn mind<T>(&self, number: u64, answer: RedisResult<T>) -> RedisResult<T> {
        use ServerErrorKind::{MasterDown, ReadOnly};
        if let Err(error) = &answer
            && (is_cut_off(error) || matches!(error.kind(), ErrorKind::Server(ReadOnly | MasterDown)))
        {
            for kept in &self.current {
                kept.lock().take_if(|(current, _)| *current == number);
            }
        }
        answer
    }

    /// The same for several commands, each of which has an answer of its own.
    fn mind_all(&self, number: u64, answers: RedisResult<Vec<Value>>) -> RedisResult<Vec<Value>> {
        for answer in answers.iter().flatten() {
            if let Value::ServerError(error) = answer {
                let _ = self.mind::<()>(number, Err(error.clone().into()));
            }
        }
        self.mind(number, answers)
    }
}

impl Wire {
    /// Whether a command may be sent more than once without a word.
    pub(super) fn repeats(&self) -> bool {
        matches!(self, Wire::Cluster(_))
    }

    /// Whoever connects this way after it asks the sentinels again, though nothing is broken.
    pub(super) fn forsake(&self) {
        if let Wire::Sentinel(sentinels, way) = self {
            sentinels.current[*way as usize].lock().take();
        }
    }

    /// The answers of every primary to a command that has no key.
    pub(super) async fn ask_all(&mut self, command: &Cmd) -> RedisResult<Vec<Value>> {
        let Wire::Cluster(cluster) = self else { return Ok(vec![command.query_async(self).await?]) };
        let everywhere = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        match cluster.route_command(command.clone(), everywhere).await? {
            Value::Map(nodes) => Ok(nodes.into_iter().map(|(_, answer)| answer).collect()),
            Value::Array(answers) => Ok(answers),
            other => Ok(vec![other]),
        }
    }
}

impl ConnectionLike for Wire {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Wire::Server(server) => server.req_packed_command(command),
            Wire::Cluster(cluster) => cluster.req_packed_command(command),
            Wire::Sentinel(sentinels, way) => Box::pin(async move {
                let (number, mut primary) = sentinels.primary(*way).await?;
                sentinels.mind(number, primary.req_packed_command(command).await)
            }),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Wire::Server(server) => server.req_packed_commands(pipeline, offset, count),
            Wire::Cluster(cluster) => cluster.req_packed_commands(pipeline, offset, count),
            Wire::Sentinel(sentinels, way) => Box::pin(async move {
                let (number, mut primary) = sentinels.primary(*way).await?;
                sentinels.mind_all(number, primary.req_packed_commands(pipeline, offset, count).await)
            }),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Wire::Server(server) => server.get_db(),
            Wire::Cluster(cluster) => cluster.get_db(),
            Wire::Sentinel(..) => 0,
        }
    }
}
