//! The peer of the broker: a TCP server that sends back what it got, whatever that is.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::bench::{Error, io};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long)]
    addr: SocketAddr,
}

pub(in crate::bench) async fn run(args: Args) -> Result<(), Error> {
    let listener = TcpListener::bind(args.addr).await.map_err(io("listen"))?;
    loop {
        let (mut stream, _) = listener.accept().await.map_err(io("accept"))?;
        stream.set_nodelay(true).map_err(io("accept"))?;
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            // A client that is gone needs no answer.
            while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..bytes]).await.is_err() {
                    return;
                }
            }
        });
    }
}
