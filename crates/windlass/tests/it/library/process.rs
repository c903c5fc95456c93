//! Workers that are processes of their own, to be stopped and killed.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use windlass_client::worker::grpc::GrpcPort;
use windlass_client::worker::{Context, Outcome, Worker};
use windlass_client::{CancellationToken, Submit};
use windlass_core::StateName;
use windlass_proto::rest::CompleteBody;

use super::broker::Broker;

const WAIT: Duration = Duration::from_secs(120);
const ADDRESS: &str = "WINDLASS_TEST_WORKER";
const LEASE_SECONDS: &str = "WINDLASS_TEST_LEASE_SECONDS";
const SLOTS: &str = "WINDLASS_TEST_SLOTS";

/// A worker that takes tasks of type `hold` and keeps them until it is told to stop.
#[derive(Debug)]
struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(broker: &Broker, lease_seconds: u64, slots: usize) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", "library::process::a_worker_of_its_own"])
            .env(ADDRESS, &broker.grpc)
            .env(LEASE_SECONDS, lease_seconds.to_string())
            .env(SLOTS, slots.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Process { child, said }
    }

    /// The rest of the next line that begins with `word`.
    fn says(&mut self, word: &str) -> String {
        let line = self.said.find_map(|line| Some(line.unwrap().strip_prefix(word)?.trim().to_owned()));
        line.unwrap_or_else(|| panic!("the worker ended and did not say {word}"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
#[ignore = "a process that the other tests start"]
async fn a_worker_of_its_own() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let lease = Duration::from_secs(std::env::var(LEASE_SECONDS).unwrap().parse().unwrap());
    let say = |line: String| writeln!(std::io::stdout(), "\n{line}").unwrap();
    let worker = Worker::builder(GrpcPort::new(&address).unwrap())
        .lease(lease)
        .concurrency(std::env::var(SLOTS).unwrap().parse().unwrap())
        .handler("hold", move |context: Context, _: ()| async move {
            say(format!("started {} {}", context.task_id(), context.lease_token()));
            say(format!("told {:?}", context.cancelled().await));
            Outcome::retry("told to stop")
        })
        .build();
    worker.unwrap().run(CancellationToken::new()).await;
}

/// In this process: does at once what the other one holds.
fn quick(broker: &Broker) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let worker = Worker::builder(GrpcPort::new(&broker.grpc).unwrap())
        .id("quick")
        .handler("hold", |_: Context, _: ()| async { Outcome::ok("done elsewhere") })
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    (stop.clone(), tokio::spawn(worker.run(stop)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_slept_past_its_lease_is_told_and_refused() {
    let broker = Broker::start();
    let client = broker.client();
    let mut sleeper = Process::start(&broker, 1, 1);
    let task = client.submit(Submit::new("hold", &()).unwrap()).await.unwrap();
    let started = sleeper.says("started");
    let (id, lease) = started.split_once(' ').unwrap();
    assert_eq!(id, task.id.as_str());
    sleeper.signal(Signal::STOP);
    let (stop, working) = quick(&broker);
    assert_eq!(client.result::<String>(&task.id, WAIT).await.unwrap(), "done elsewhere");
    sleeper.signal(Signal::CONT);
    assert_eq!(sleeper.says("told"), "LeaseLost");
    let late = CompleteBody { lease: lease.to_owned(), result: None, result_base64: None };
    let refused = broker.rest().complete(&task.id, &late).await.unwrap_err();
    assert_eq!(refused.code(), Some("lease_lost"), "{refused}");
    let ended = client.task(&task.id).await.unwrap();
    assert_eq!((ended.state, ended.crashes), (StateName::Completed, 1));
    let attempts = broker.rest().attempts(&task.id).await.unwrap().items;
    let done: Vec<_> = attempts.iter().filter(|attempt| attempt.outcome == "completed").collect();
    assert_eq!(done.len(), 1, "{attempts:?}");
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tasks_of_a_killed_worker_run_elsewhere_at_once() {
    let broker = Broker::start();
    let client = broker.client();
    // Only the broken connection can give these back: the leases last an hour.
    let mut victim = Process::start(&broker, 3600, 5);
    let batch: Vec<Submit> = (0..5).map(|_| Submit::new("hold", &()).unwrap()).collect();
    client.submit_all(&batch).await.unwrap();
    for _ in &batch {
        victim.says("started");
    }
    let (stop, working) = quick(&broker);
    let killed = Instant::now();
    victim.signal(Signal::KILL);
    for submit in &batch {
        assert_eq!(client.result::<String>(submit.task_id(), WAIT).await.unwrap(), "done elsewhere");
    }
    // About half a second; a worker is judged dead by its silence after 20 s, and that would be too late.
    assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
    stop.cancel();
    working.await.unwrap();
}
