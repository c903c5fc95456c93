//! Calls whose answer is lost for so long that what they did is over when they are sent again; and callers who go away.

use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use windlass_core::{Change, NewTask, Record, State, TaskId, Transition, transition};
use windlass_store::clock::ManualClock;
use windlass_store::{Claim, Clock, Committed, Inserted, Store};

use super::shared::{add, claim, name, task};
use super::{fresh_url, open, server};

/// Only a store that forgot something ever takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A way to Redis that loses the answers to a request with some word in it and to all behind it, and then the connection.
struct Way {
    address: String,
    /// The word; without one nothing is lost.
    loses: Arc<watch::Sender<Option<&'static str>>>,
}

impl Way {
    async fn open(socket: PathBuf) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let loses = Arc::new(watch::channel(None).0);
        let told = Arc::clone(&loses);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&socket).await else { return };
                tokio::spawn(carry(client, server, told.subscribe()));
            }
        });
        Way { address, loses }
    }
}

async fn carry(client: TcpStream, server: UnixStream, mut loses: watch::Receiver<Option<&'static str>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let lost = Arc::new(AtomicBool::new(false));
    let (word, told) = (loses.clone(), Arc::clone(&lost));
    let requests = tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            let has = |word: &str| buffer[..read].windows(word.len()).any(|bytes| bytes == word.as_bytes());
            if word.borrow().is_some_and(has) {
                told.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
        if lost.load(Ordering::SeqCst) {
            let _ = loses.wait_for(Option::is_none).await;
            break;
        }
        if to_client.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    requests.abort();
}

/// Two processes, one of which has a bad way to Redis.
struct Pair {
    way: Way,
    here: Arc<dyn Store>,
    there: Arc<dyn Store>,
    now: u64,
}

impl Pair {
    async fn start() -> Pair {
        let clock = ManualClock::shared();
        let way = Way::open(server().socket.clone()).await;
        let url = fresh_url();
        let prefix = url.split_once("prefix=").expect("a prefix").1;
        let here = open(&format!("redis://{}?prefix={prefix}", way.address), clock.clone()).await;
        let there = open(&url, clock.clone()).await;
        Pair { way, here, there, now: clock.now().wall }
    }

    fn brief(&self, id: &str) -> NewTask {
        NewTask { retention_ms: 0, ..task(id, self.now) }
    }

    /// Until the task looks like this to the one with the good way.
    async fn wait_for(&self, id: &str, seen: impl Fn(Option<&Record>) -> bool) -> Option<Record> {
        let id = TaskId::new(id).expect("an id");
        let looking = async {
            loop {
                let record = self.there.peek(&id).await.expect("peek");
                if seen(record.as_ref()) {
                    return record;
                }
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("it never looks like that")
    }

    /// The next task, leased by the one with the good way.
    async fn claimed(&self) -> Record {
        self.there.claim(claim()).await.expect("claim").remove(0).record
    }

    fn completion(&self, record: &Record) -> Transition {
        let State::Running(lease) = &record.state else { panic!("{record:?}") };
        let change = transition::complete(record, lease.token, None, self.now).expect("held");
        of(record, change.expect("a change"))
    }

    fn removal(&self, record: &Record) -> Transition {
        of(record, transition::remove(record, self.now).expect("it ended").expect("a change"))
    }

    async fn done(&self, transition: Transition) -> Record {
        match self.there.commit(vec![transition]).await.expect("commit").remove(0) {
            Committed::Done(record) => *record,
            other => panic!("{other:?}"),
        }
    }
}

fn of(record: &Record, change: Change) -> Transition {
    Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change }
}

#[tokio::test]
async fn a_task_that_ended_and_is_forgotten_is_not_added_again() {
    let pair = Pair::start().await;
    pair.way.loses.send_replace(Some("brief"));
    let (here, new) = (Arc::clone(&pair.here), pair.brief("brief"));
    let adding = tokio::spawn(async move { add(&here, vec![new]).await });
    pair.wait_for("brief", |found| found.is_some()).await;
    let held = pair.claimed().await;
    let ended = pair.done(pair.completion(&held)).await;
    pair.done(pair.removal(&ended)).await;
    pair.way.loses.send_replace(None);
    let answers = adding.await.expect("no panic");
    assert!(
        matches!(&answers[..], [Inserted::New(record)] if record.seq == held.seq),
        "the first call added it: {answers:?}"
    );
    assert!(pair.there.claim(Claim { max: 10, ..claim() }).await.expect("claim").is_empty(), "it ran once");
    assert_eq!(pair.there.ledger().await.expect("ledger").submitted, 1);
}

#[tokio::test]
async fn the_end_of_a_task_that_is_forgotten_is_told_as_done() {
    let pair = Pair::start().await;
    add(&pair.here, vec![pair.brief("a"), pair.brief("b")]).await;
    let held = [pair.claimed().await, pair.claimed().await];
    pair.way.loses.send_replace(Some("completed"));
    let (here, ends) = (Arc::clone(&pair.here), held.iter().map(|held| pair.completion(held)).collect());
    let ending = tokio::spawn(async move { here.commit(ends).await });
    let ended = pair.wait_for("b", |found| found.is_some_and(|found| found.state.is_terminal())).await;
    pair.done(pair.removal(&ended.expect("it is there"))).await;
    pair.way.loses.send_replace(None);
    let answers = ending.await.expect("no panic").expect("commit");
    assert!(matches!(answers[..], [Committed::Done(_), Committed::Done(_)]), "{answers:?}");
    assert_eq!(pair.there.ledger().await.expect("ledger").completed, 2);
}

/// Reports that come at once may go in one call, which cannot tell when it is repeated whose change it was that it finds.
#[tokio::test]
async fn of_two_reports_of_a_task_one_is_told_as_done_when_the_answer_was_lost() {
    let pair = Pair::start().await;
    add(&pair.here, vec![task("a", pair.now)]).await;
    let held = pair.here.claim(claim()).await.expect("claim").remove(0).record;
    pair.way.loses.send_replace(Some("completed"));
    let reports = [pair.completion(&held), pair.completion(&held)].map(|end| {
        let here = Arc::clone(&pair.here);
        tokio::spawn(async move { here.commit(vec![end]).await })
    });
    pair.wait_for("a", |found| found.is_some_and(|found| found.state.is_terminal())).await;
    pair.way.loses.send_replace(None);
    let mut done = 0;
    for report in reports {
        match report.await.expect("no panic").expect("commit").remove(0) {
            Committed::Done(_) => done += 1,
            other => assert_eq!(other, Committed::Conflict),
        }
    }
    assert_eq!(done, 1);
    assert_eq!(pair.there.ledger().await.expect("ledger").completed, 1);
}

#[tokio::test]
async fn what_was_forgotten_by_a_call_that_was_not_answered_is_told_as_done() {
    let pair = Pair::start().await;
    add(&pair.here, vec![task("a", pair.now)]).await;
    let held = pair.claimed().await;
    let ended = pair.done(pair.completion(&held)).await;
    pair.way.loses.send_replace(Some("drop"));
    let (here, removal) = (Arc::clone(&pair.here), pair.removal(&ended));
    let removing = tokio::spawn(async move { here.commit(vec![removal]).await });
    pair.wait_for("a", |found| found.is_none()).await;
    pair.way.loses.send_replace(None);
    let answers = removing.await.expect("no panic").expect("commit");
    assert!(matches!(answers[..], [Committed::Done(_)]), "{answers:?}");
    assert_eq!(pair.there.ledger().await.expect("ledger").removed, 1);
}

/// Of those that it was given by the call that was not answered, one was cancelled meanwhile, and one is held by another.
#[tokio::test]
async fn a_claim_that_was_not_answered_gets_what_it_still_holds() {
    let pair = Pair::start().await;
    add(&pair.here, (0..10).map(|i| task(&format!("a{i}"), pair.now)).collect()).await;
    pair.way.loses.send_replace(Some("weighted"));
    let (here, many) = (Arc::clone(&pair.here), Claim { max: 10, types: Some(vec![name("t")]), ..claim() });
    let claiming = tokio::spawn(async move { here.claim(many).await });
    let runs = |found: Option<&Record>| found.is_some_and(|found| matches!(found.state, State::Running(_)));
    let mut held = Vec::new();
    for i in 0..10 {
        held.extend(pair.wait_for(&format!("a{i}"), runs).await);
    }
    let cancel = transition::cancel(&held[3], pair.now).expect("decided").expect("a change");
    pair.done(of(&held[3], cancel)).await;
    let State::Running(lease) = &held[7].state else { panic!("{:?}", held[7]) };
    let release =
        transition::release(&held[7], lease.token, None, pair.now).expect("held").expect("a change");
    pair.done(of(&held[7], release)).await;
    assert_eq!(pair.claimed().await.id, held[7].id);
    pair.way.loses.send_replace(None);
    let got = claiming.await.expect("no panic").expect("claim");
    let got: Vec<Record> = got.into_iter().map(|task| task.record).collect();
    let mut expected = held;
    expected.retain(|record| !["a3", "a7"].contains(&record.id.as_str()));
    assert_eq!(got, expected);
    let ends = got.iter().map(|record| pair.completion(record)).collect();
    let answers = pair.here.commit(ends).await.expect("commit");
    assert!(answers.iter().all(|answer| matches!(answer, Committed::Done(_))), "{answers:?}");
}

/// The caller goes away when it was served and has not looked yet.
#[tokio::test]
async fn a_claim_that_is_dropped_with_its_tasks_on_the_way_leaves_none_leased() {
    let pair = Pair::start().await;
    add(&pair.here, vec![task("a", pair.now)]).await;
    let mut claiming = Box::pin(pair.here.claim(claim()));
    let waits = poll_fn(|context| Poll::Ready(claiming.as_mut().poll(context).is_pending())).await;
    assert!(waits, "Redis has yet to answer");
    pair.wait_for("a", |found| found.is_some_and(|found| matches!(found.state, State::Running(_)))).await;
    // Answers come in order, so that of the claim has come before these.
    for _ in 0..3 {
        pair.here.ledger().await.expect("ledger");
    }
    drop(claiming);
    pair.wait_for("a", |found| found.is_some_and(|found| matches!(found.state, State::Pending))).await;
}
