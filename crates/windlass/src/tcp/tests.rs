//! One connection on simulated time: what happens to clients that are slow, silent, or do not read.

mod direct;

use std::cell::Cell;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;
use windlass_broker::Broker;
use windlass_core::limits::FRAMES_IN_FLIGHT_MAX;
use windlass_store::SystemClock;
use windlass_store::memory::MemoryStore;

use super::job::{Done, Job};
use super::*;
use crate::api::Settings;
use crate::server::budget::Held;

fn state() -> State {
    let clock = SystemClock::shared();
    let broker = Broker::start(MemoryStore::new(clock.clone()), clock, windlass_broker::Settings::default());
    State::new(broker, Settings { payload_bytes_max: 1000, ..Settings::default() })
}

/// Serves one connection, whose other end `client` holds, with jobs that `run` does.
async fn serve<F, C>(
    run: impl Fn(Job) -> F,
    client: impl FnOnce(DuplexStream, Arc<Stopping>) -> C,
) -> io::Result<()>
where
    F: Future<Output = Done>,
    C: Future<Output = ()>,
{
    let (near, far) = duplex(4096);
    let (state, limits, stopping) = (state(), Limits::default(), Arc::new(Stopping::default()));
    let account = &state.budget.without_connection();
    let context = Context { state: &state, limits: &limits, stopping: &stopping, account };
    let connection = Connection::new(near, context, |_| None, run);
    let (served, ()) = tokio::join!(connection.serve(), client(far, stopping.clone()));
    served
}

async fn done(job: Job) -> Done {
    match job {
        Job::Refused(refused) => Done::Refused(refused, 1),
        job => Done::Finished((0..job.requests()).map(|_| Ok(())).collect()),
    }
}

fn stats() -> Vec<u8> {
    vec![0, 0, 0, 3, 10, b'{', b'}']
}

async fn read(client: &mut (impl AsyncRead + Unpin)) -> (u8, Value) {
    let length = client.read_u32().await.unwrap() as usize;
    let kind = client.read_u8().await.unwrap();
    let mut body = vec![0; length - 1];
    client.read_exact(&mut body).await.unwrap();
    (kind, serde_json::from_slice(&body).unwrap())
}

async fn is_closed(client: &mut (impl AsyncRead + Unpin)) -> bool {
    client.read(&mut [0]).await.unwrap() == 0
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_the_last_answer_and_not_before() {
    let served = serve(done, async |mut client, _| {
        let mut last = Instant::now();
        for _ in 0..3 {
            // sleep: simulated time, a client that thinks for almost as long as it may.
            tokio::time::sleep(Limits::default().idle_timeout - Duration::from_secs(1)).await;
            client.write_all(&stats()).await.unwrap();
            assert_eq!(read(&mut client).await, (5, json!({})));
            last = Instant::now();
        }
        assert!(is_closed(&mut client).await);
        assert_eq!(last.elapsed().as_secs(), Limits::default().idle_timeout.as_secs());
    });
    assert!(served.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_does_not_end_is_refused_however_busy_the_rest_is() {
    let served = serve(done, async |mut client, _| {
        client.write_all(&stats()).await.unwrap();
        assert_eq!(read(&mut client).await.0, 5);
        let began = Instant::now();
        // A byte every five seconds is not silence, and still too slow.
        for byte in [0, 0, 0, 60, 10, b'{', b' '] {
            // sleep: simulated time, a client that dribbles.
            tokio::time::sleep(Duration::from_secs(5)).await;
            let _ = client.write_all(&[byte]).await;
        }
        let (kind, problem) = read(&mut client).await;
        assert_eq!((kind, &problem["code"]), (6, &json!("body_timeout")));
        assert!(is_closed(&mut client).await);
        assert!((30..=40).contains(&began.elapsed().as_secs()));
    });
    assert!(served.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_cut() {
    let began = Instant::now();
    let large = async |_| Done::Written(vec![0; 10_000], Held::default());
    let served = serve(large, async |mut client, _| {
        assert!(client.write_all(&stats().repeat(10_000)).await.is_err());
    });
    assert_eq!(served.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(began.elapsed().as_secs(), Limits::default().write_timeout.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_does_not_hold_the_connection_for_ever() {
    let served = serve(
        |_| std::future::pending::<Done>(),
        async |mut client, _| {
            client.write_all(&stats()).await.unwrap();
            assert!(is_closed(&mut client).await);
        },
    );
    assert_eq!(served.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_a_window_is_under_way_and_all_is_answered_in_order() {
    let (open, most) = (Cell::new(0), Cell::new(0));
    let begun = Cell::new(0_u64);
    let (open, most, begun) = (&open, &most, &begun);
    let run = async move |job: Job| {
        open.set(open.get() + job.requests());
        most.set(most.get().max(open.get()));
        begun.set(begun.get() + 1);
        let number = begun.get();
        // sleep: simulated time, so that later jobs end first.
        tokio::time::sleep(Duration::from_millis(1000 - number % 1000)).await;
        open.set(open.get() - job.requests());
        let frame = [&[0, 0, 0, 9, 5], number.to_be_bytes().as_slice()].concat();
        Done::Written(frame, Held::default())
    };
    let served = serve(run, async |client, _| {
        let (mut reader, mut writer) = tokio::io::split(client);
        let send = async {
            writer.write_all(&stats().repeat(1000)).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let receive = async {
            for number in 1..=1000 {
                let mut frame = [0; 13];
                reader.read_exact(&mut frame).await.unwrap();
                assert_eq!(frame[5..], u64::to_be_bytes(number));
            }
            assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
        };
        tokio::join!(send, receive);
    });
    assert!(served.await.is_ok());
    assert_eq!((begun.get(), most.get()), (1000, FRAMES_IN_FLIGHT_MAX));
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_answers_what_is_under_way_and_closes() {
    let begun = tokio::sync::Notify::new();
    let slow = async |job| {
        begun.notify_one();
        // sleep: simulated time, a request that takes a while.
        tokio::time::sleep(Duration::from_secs(3)).await;
        done(job).await
    };
    let served = serve(slow, async |mut client, stopping| {
        client.write_all(&stats()).await.unwrap();
        begun.notified().await;
        stopping.begin();
        assert_eq!(read(&mut client).await, (5, json!({})));
        assert!(is_closed(&mut client).await);
    });
    assert!(served.await.is_ok());
}
