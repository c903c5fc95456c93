//! Two servers that both take themselves for the primary, and a store that has a connection to each: what one of them was told no
//! replica of the other can confirm.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use windlass_core::TaskId;
use windlass_store::clock::ManualClock;
use windlass_store::{Clock, Error, Inserted};

use super::replicas::{confirmed, submit};
use super::{Server, ask, free_port, open, wait_until};

/// A name for the primary: who connects from now on gets to the server of this port, who is connected stays.
async fn name_for(first: u16) -> (String, watch::Sender<u16>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (named, current) = watch::channel(first);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let port = *current.borrow();
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    (address, named)
}

fn serve(port: u16, of: Option<u16>) -> Server {
    let (port, of) = (port.to_string(), of.map(|port| port.to_string()));
    let mut options =
        vec!["--port", &port, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
    if let Some(of) = &of {
        options.extend(["--replicaof", "127.0.0.1", of]);
    }
    Server::start(&options)
}

/// Ends the connections to a server but for the one that waits for replicas.
fn cut_scripts(port: u16) {
    let mut cut = 0;
    for line in ask(port, &["CLIENT", "LIST", "TYPE", "normal"]).lines() {
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
        if let (Some(id), Some("evalsha")) = (field("id="), field("cmd=")) {
            ask(port, &["CLIENT", "KILL", "ID", id]);
            cut += 1;
        }
    }
    assert!(cut > 0, "no script was sent over any connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_of_another_primary_confirm_nothing() {
    let [old, new, replica] = std::array::from_fn(|_| free_port());
    let _servers = [serve(old, None), serve(new, Some(old)), serve(replica, Some(old))];
    wait_until(old, &["INFO", "replication"], |info| info.matches("state=online").count() == 2);
    let (address, named) = name_for(old).await;
    let clock = ManualClock::shared();
    let store = open(&format!("redis://{address}?prefix=r&wait_replicas=1&wait_ms=200"), clock.clone()).await;
    let now = clock.now().wall;
    confirmed(&*store, "a", now).await;

    // The old primary is not told, and keeps its other replica.
    ask(new, &["REPLICAOF", "NO", "ONE"]);
    named.send_replace(new);
    cut_scripts(old);
    let refused = submit(&*store, "b", now).await.expect_err("no replica has it");
    assert!(matches!(refused, Error::Unconfirmed { confirmed: 0, wanted: 1, .. }), "{refused}");
    let id = TaskId::new("b").expect("an id");
    let seen = store.peek(&id).await.expect("peek").expect("the new primary has it");
    let relied = store.are_kept(std::slice::from_ref(&seen)).await;
    assert!(matches!(relied, Err(Error::Unconfirmed { .. }) | Ok(false)), "{relied:?}");

    ask(replica, &["REPLICAOF", "127.0.0.1", &new.to_string()]);
    let found = confirmed(&*store, "b", now).await;
    assert!(matches!(found, Inserted::Same(_)), "{found:?}");
    let opened = open(&format!("redis://127.0.0.1:{old}?prefix=r"), Arc::clone(&clock)).await;
    assert_eq!(opened.peek(&id).await.expect("peek"), None, "the old primary never had it");
}
