//! The webhook against a server that says what it is told to say.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use windlass_core::{Name, Payload, Priority, TaskId, Token};

use super::*;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Answers one request with `answer`, and gives back the address and what was asked.
async fn server(answer: String) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") && !asked.ends_with(b"}") {
            let mut chunk = [0; 4096];
            let n = stream.read(&mut chunk).await.unwrap();
            asked.extend_from_slice(&chunk[..n]);
        }
        // The client may hang up in the middle of an answer that is too long.
        let _ = stream.write_all(answer.as_bytes()).await;
        String::from_utf8(asked).unwrap()
    });
    (port, asked)
}

async fn outcome(allow_private: bool, payload: String) -> Outcome {
    let job = Job {
        id: TaskId::new("t1").unwrap(),
        kind: Name::new("http").unwrap(),
        queue: Name::new("default").unwrap(),
        priority: Priority::default(),
        payload: Payload::Json(payload.into()),
        metadata: vec![(TRACEPARENT.to_owned(), TRACE.to_owned())],
        attempt: 2,
        max_retries: 3,
        timeout: Duration::from_secs(60),
        checkpoint: None,
        token: Token { number: 1, secret: 1 },
    };
    let context = Context::new(&job, &job.kind, tokio::time::Instant::now(), job.timeout);
    Http::new(Options { allow_private }).unwrap().run(context, job).await
}

async fn answered(answer: &str) -> Outcome {
    let (port, _asked) = server(answer.to_owned()).await;
    outcome(true, format!(r#"{{"url":"http://127.0.0.1:{port}/"}}"#)).await
}

fn reply(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn the_request_is_sent_and_the_answer_kept() {
    let (port, asked) = server(reply("200 OK", r#"{"ok":true}"#)).await;
    let payload = format!(
        r#"{{"url":"http://localhost:{port}/hook","headers":{{"x-mine":"1"}},"body":{{"a":1}},"timeout_seconds":30}}"#
    );
    let Outcome::Done(Some(result)) = outcome(true, payload).await else { panic!("not done") };
    let result: Value = serde_json::from_slice(result.bytes()).unwrap();
    assert_eq!((&result["status"], &result["body"]), (&json!(200), &json!({"ok": true})));
    let asked = asked.await.unwrap();
    assert!(asked.starts_with("POST /hook HTTP/1.1\r\n"), "{asked}");
    for part in [
        "idempotency-key: t1",
        "x-windlass-attempt: 2",
        "x-mine: 1",
        &format!("traceparent: {TRACE}"),
        "content-type: application/json",
        r#"{"a":1}"#,
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
}

#[tokio::test]
async fn the_status_decides() {
    assert!(
        matches!(answered(&reply("500 Oops", "x")).await, Outcome::Retry { error } if error.contains("500"))
    );
    assert!(
        matches!(answered(&reply("404 No", "gone")).await, Outcome::Fatal { error } if error.contains("gone"))
    );
    let wait = "HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n";
    let Outcome::RetryIn { delay, .. } = answered(wait).await else { panic!("no delay") };
    assert_eq!(delay, Duration::from_secs(7));
    let elsewhere = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n";
    assert!(matches!(answered(elsewhere).await, Outcome::Fatal { error } if error.contains("302")));
    let long = answered(&reply("200 OK", &"x".repeat(RESPONSE_BYTES_MAX + 1))).await;
    assert!(matches!(long, Outcome::Fatal { error } if error.contains("larger than")));
}

#[tokio::test]
async fn inner_addresses_are_refused() {
    for url in [
        "http://127.0.0.1:9/",
        "http://localhost:9/",
        "http://[::1]:9/",
        "http://169.254.169.254/",
        "ftp://1.1.1.1/",
    ] {
        let refused = outcome(false, format!(r#"{{"url":"{url}"}}"#)).await;
        assert!(
            matches!(&refused, Outcome::Fatal { error } if error.contains("refused") || error.contains("only http")),
            "{url}: {refused:?}"
        );
    }
}
