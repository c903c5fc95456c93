//! The peer of the broker: an axum server that answers with what it got, written as anybody would write it.

use std::net::SocketAddr;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use bytes::Bytes;

use crate::bench::{Error, io};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long)]
    addr: SocketAddr,
}

pub(in crate::bench) async fn run(args: Args) -> Result<(), Error> {
    let listener = tokio::net::TcpListener::bind(args.addr).await.map_err(io("listen"))?;
    let echo = |body: Bytes| async { ([(CONTENT_TYPE, "application/json")], body) };
    let app = Router::new().route("/", post(echo));
    axum::serve(axum::serve::ListenerExt::tap_io(listener, |stream| drop(stream.set_nodelay(true))), app)
        .await
        .map_err(io("serve"))
}
