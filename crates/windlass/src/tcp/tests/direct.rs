//! Answers that go past their connection, over real sockets.

use std::os::fd::AsFd;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};

use super::super::outlet::Direct;
use super::*;
use crate::server::descriptors;

fn submit(payload: usize) -> Vec<u8> {
    let body = format!(r#"{{"type":"t","payload":"{}"}}"#, "x".repeat(payload));
    [&(body.len() as u32 + 1).to_be_bytes()[..], &[1], body.as_bytes()].concat()
}

/// What the server has of a connection, and what the client has.
async fn ends() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (listener.accept().await.unwrap().0, far)
}

/// Serves one connection that hands submits in directly; what is no submit is done by `run`, and a submit that comes there is one too many.
async fn serve_directly<C: Future<Output = ()>>(
    submits_run: &Cell<usize>,
    client: impl FnOnce(TcpStream, Arc<Stopping>) -> C,
) -> io::Result<()> {
    let (near, far) = ends().await;
    let (state, limits, stopping) = (Arc::new(state()), Limits::default(), Arc::new(Stopping::default()));
    let account = &state.budget.without_connection();
    let run = |job: Job| {
        if let Job::Submits(submits) = &job {
            submits_run.set(submits_run.get() + submits.len());
        }
        job::run(state.clone(), state.broker.clone(), account.clone(), job)
    };
    let context = Context { state: &state, limits: &limits, stopping: &stopping, account };
    let mut connection = Connection::new(near, context, descriptors::handle, run);
    connection.write_with(state.broker.clone());
    let (served, ()) = tokio::join!(connection.serve(), client(far, stopping.clone()));
    served
}

#[tokio::test]
async fn submits_are_answered_without_a_job_and_in_order_with_others() {
    let run = Cell::new(0);
    let served = serve_directly(&run, async |mut client, _| {
        for i in 0..3 {
            client.write_all(&submit(i)).await.unwrap();
            let (kind, answer) = read(&mut client).await;
            assert_eq!((kind, answer["task"]["payload"].as_str().map(str::len)), (5, Some(i)), "{answer}");
        }
        client.write_all(&[submit(10), submit(11), submit(12)].concat()).await.unwrap();
        for i in 10..13 {
            let answer = read(&mut client).await.1;
            assert_eq!(answer["task"]["payload"].as_str().map(str::len), Some(i));
        }
        assert_eq!(run.get(), 0, "none of them was a job of its own");
        // The submits stand between requests of another kind.
        client.write_all(&[stats(), submit(20), stats(), submit(21), stats()].concat()).await.unwrap();
        for queued in [None, Some(20), None, Some(21), None] {
            let answer = read(&mut client).await.1;
            assert_eq!(answer["task"]["payload"].as_str().map(str::len), queued, "{answer}");
        }
        client.write_all(&submit(1001)).await.unwrap();
        let (kind, problem) = read(&mut client).await;
        assert_eq!((kind, &problem["code"]), (6, &json!("too_large")), "{problem}");
    });
    served.await.unwrap();
}

#[tokio::test]
async fn who_does_not_read_gets_everything_later() {
    const MANY: usize = 20_000;
    let run = Cell::new(0);
    let served = serve_directly(&run, async |mut client, _| {
        let (mut reader, mut writer) = client.split();
        let written = Cell::new(0);
        let all = async {
            for i in 0..MANY {
                writer.write_all(&submit(600 + i % 300)).await.unwrap();
                written.set(i + 1);
            }
            writer.shutdown().await.unwrap();
        };
        let later = async {
            // The client does something else until nothing moves any more, because the socket is full.
            let mut before = None;
            while before.replace(written.get()) != Some(written.get()) {
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
            }
            for i in 0..MANY {
                let (kind, answer) = read(&mut reader).await;
                let payload = answer["task"]["payload"].as_str().map(str::len);
                assert_eq!((kind, payload), (5, Some(600 + i % 300)), "the {i}th");
            }
            assert!(is_closed(&mut reader).await, "nothing is answered twice");
        };
        tokio::join!(all, later);
    });
    served.await.unwrap();
}

#[tokio::test]
async fn what_is_under_way_is_answered_before_the_end() {
    let run = Cell::new(0);
    let hangs_up = serve_directly(&run, async |mut client, _| {
        client.write_all(&submit(1)).await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(read(&mut client).await.0, 5);
        assert!(is_closed(&mut client).await);
    });
    hangs_up.await.unwrap();
    assert_eq!(run.get(), 0);
}

/// Both ends of a connection, and a job that is handed in for it directly.
async fn begun() -> (TcpStream, TcpStream, Direct) {
    let (near, far) = ends().await;
    let state = state();
    let mut direct = Direct::new(state.broker.clone());
    direct.wakes(std::task::Waker::noop());
    let body = Bytes::from_static(br#"{"type":"t"}"#);
    let request = request::read(&state, Some(1), body, &CancellationToken::new());
    let socket = || Some(near.as_fd().try_clone_to_owned().unwrap().into());
    assert!(direct.begin(Job::begin(request, 1), socket).is_none());
    (near, far, direct)
}

#[tokio::test]
async fn a_connection_that_waits_is_told_and_one_that_ended_is_closed_at_once() {
    let (_near, mut far, mut direct) = begun().await;
    assert!(direct.is_under_way() && direct.end().is_none());
    assert_eq!(read(&mut far).await.0, 5);
    assert_eq!(direct.end(), Some(Vec::new()), "nothing is left to be sent");
    assert!(!direct.is_under_way());

    // The submit is still on its way when its connection goes.
    let (near, mut far, direct) = begun().await;
    drop((near, direct));
    assert!(is_closed(&mut far).await);
}
