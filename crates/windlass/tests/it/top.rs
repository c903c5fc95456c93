//! `windlass top` on a real terminal, which tmux is.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::broker_process::BrokerProcess;
use crate::cli::process;
use crate::http::{Client, text};

/// Much longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal of its own, gone with this value.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// Runs top, and says how it ended.
    fn start(name: &str, url: &str) -> Self {
        let tmux = Self { socket: format!("windlass-{name}-{}", std::process::id()) };
        let script = format!(
            "env -u TMUX {} top --server {url}; echo \"left with $?\"; sleep 600",
            env!("CARGO_BIN_EXE_windlass")
        );
        tmux.run(&["new-session", "-d", "-x", "110", "-y", "30", "sh", "-c", &script]);
        tmux
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket, "-f", "/dev/null", "-u"]).args(words);
        let output = command.output().expect("tmux is installed: `cargo xtask test` does that");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn keys(&self, keys: &str) {
        self.run(&["send-keys", keys]);
    }

    /// The screen as soon as it is as it should be.
    #[track_caller]
    fn shows(&self, what: &str, as_it_should: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let screen = self.run(&["capture-pane", "-p"]);
            if as_it_should(&screen) {
                return screen;
            }
            assert!(Instant::now() < until, "{what} is not on the screen:\n{screen}");
            // sleep: a terminal tells nobody that it was written to.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The process that runs in it.
    fn top(&self) -> i32 {
        let shell = self.run(&["display-message", "-p", "#{pane_pid}"]).trim().to_owned();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        children.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).output();
    }
}

/// A broker whose address stays over a restart.
struct Broker {
    child: Child,
    data: PathBuf,
    address: String,
}

impl Broker {
    fn start(data: &Path, address: &str) -> Self {
        let mut command = process::command(&["serve", "--http-addr", address, "--grpc-addr", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(data).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let address = lines
            .map(Result::unwrap)
            .find_map(|line| line.strip_prefix("listening http ").map(str::to_owned))
            .expect("it says where it listens");
        Self { child, data: data.to_owned(), address }
    }

    fn client(&self) -> Client {
        Client::connect(self.address.parse().unwrap())
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn again(&mut self) {
        let again = Self::start(&self.data, &self.address);
        let _ = std::mem::replace(self, again);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn submit(client: &mut Client, queue: &str, count: usize) {
    for _ in 0..count {
        client.post("/api/v1/tasks", &json!({"type": "t", "queue": queue}).to_string()).expect(201);
    }
}

fn claim(client: &mut Client, queue: &str) -> Value {
    let body = json!({"worker_id": "worker-of-the-test", "queues": [queue], "max": 1}).to_string();
    client.post("/api/v1/claim", &body).expect(200)["tasks"][0].clone()
}

fn end(client: &mut Client, task: &Value, how: &str, mut body: Value) {
    body["lease"] = task["lease"].clone();
    client.post(&format!("/api/v1/tasks/{}/{how}", text(&task["id"])), &body.to_string()).expect(200);
}

#[test]
fn queues_workers_and_failures_are_seen_under_load_and_acted_on() {
    let data = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(&data.path().join("data"), "127.0.0.1:0");
    let mut client = broker.client();
    submit(&mut client, "reports", 1234);
    submit(&mut client, "mail", 1);
    let task = claim(&mut client, "mail");
    let dead = text(&task["id"]);
    end(&mut client, &task, "fail", json!({"error": "mailbox 17 is full", "retryable": false}));
    submit(&mut client, "slow", 1);
    claim(&mut client, "slow");

    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let (stop, mut client) = (stop.clone(), broker.client());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                submit(&mut client, "fast", 1);
                let task = claim(&mut client, "fast");
                end(&mut client, &task, "complete", json!({}));
            }
        })
    };
    let tmux = Tmux::start("load", &format!("http://{}", broker.address));
    let row = |screen: &str, parts: &[&str]| {
        screen.lines().any(|line| parts.iter().all(|part| line.contains(part)))
    };
    let moves = |screen: &str| {
        let line = screen.lines().find(|line| line.contains("done") && line.contains("/s"));
        line.is_some_and(|line| line.contains('█') && line.contains("failed"))
    };
    tmux.shows("all of it", |screen| {
        row(screen, &["reports", "1,234"])
            && row(screen, &["slow"])
            && row(screen, &["fast"])
            && row(screen, &["worker-of-the-test"])
            && row(screen, &["✗", "mailbox 17 is full"])
            && moves(screen)
    });
    stop.store(true, Ordering::Relaxed);
    load.join().unwrap();

    tmux.keys("/");
    tmux.keys("repo");
    tmux.keys("Enter");
    tmux.shows("the filter", |screen| row(screen, &["reports"]) && !row(screen, &["fast"]));
    tmux.keys("p");
    tmux.shows("the question", |screen| screen.contains("pause queue reports?"));
    assert_eq!(client.get("/api/v1/queues/reports").expect(200)["paused"], false, "it asks first");
    tmux.keys("y");
    tmux.shows("the pause", |screen| row(screen, &["reports", "paused"]));
    assert_eq!(client.get("/api/v1/queues/reports").expect(200)["paused"], true);
    tmux.keys("Escape");
    tmux.shows("everything again", |screen| row(screen, &["fast"]));
    tmux.keys("r");
    tmux.keys("r");
    tmux.shows("the retry", |screen| screen.contains("nothing failed"));
    assert_eq!(client.get(&format!("/api/v1/tasks/{dead}")).expect(200)["state"], "pending");

    broker.kill();
    tmux.shows("the loss", |screen| screen.contains("reconnecting") && row(screen, &["reports", "1,234"]));
    broker.again();
    tmux.shows("the return", |screen| !screen.contains("reconnecting") && row(screen, &["reports", "1,234"]));
    tmux.run(&["resize-window", "-x", "70", "-y", "16"]);
    tmux.shows("the new size", |screen| {
        screen.lines().any(|line| line.starts_with('╭') && line.chars().count() == 70)
    });
    tmux.keys("q");
    tmux.shows("the end", |screen| screen.contains("left with 0"));
    assert_eq!(tmux.run(&["display-message", "-p", "#{alternate_on}"]).trim(), "0");
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let broker = BrokerProcess::start();
    let tmux = Tmux::start("signal", &format!("http://{}", broker.address));
    tmux.shows("top", |screen| screen.contains("no worker is connected"));
    assert_eq!(tmux.run(&["display-message", "-p", "#{alternate_on}"]).trim(), "1");
    let pid = rustix::process::Pid::from_raw(tmux.top()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    tmux.shows("the end", |screen| screen.contains("left with 0"));
    assert_eq!(tmux.run(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1");
}

#[test]
fn one_look_as_json_and_as_text() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    submit(&mut client, "mail", 3);
    claim(&mut client, "mail");
    let url = format!("http://{}", broker.address);
    let done = process::run(&["top", "--once", "-o", "json", "--server", &url]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let look: Value = serde_json::from_str(&done.stdout).unwrap();
    let keys: Vec<&String> = look.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["at", "failures", "queues", "server", "stats", "workers"]);
    assert_eq!(
        (&look["queues"][0]["name"], &look["queues"][0]["tasks"]["pending"]),
        (&json!("mail"), &json!(2))
    );
    assert_eq!(look["stats"]["tasks"]["running"], 1);
    assert_eq!(look["workers"][0]["id"], "worker-of-the-test");
    let shown = process::run(&["top", "--once", "--server", &url]).stdout;
    assert!(shown.contains("pending 2") && shown.contains("worker-of-the-test"), "{shown}");
    for words in [&["top", "--server", &url][..], &["top", "-o", "json", "--server", &url]] {
        let refused = process::run(words);
        assert_eq!(refused.code, 2, "without a terminal: {}", refused.stdout);
        assert!(refused.stderr.contains("--once"), "{}", refused.stderr);
    }
    assert_eq!(process::run(&["top", "--once", "--server", "http://127.0.0.1:1"]).code, 6);
}
