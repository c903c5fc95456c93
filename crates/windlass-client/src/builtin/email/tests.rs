//! The handler against a small mail server that speaks SMTP and remembers what it heard.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use windlass_core::{Name, Payload, Priority, TaskId, Token};

use super::*;

/// What one mail server heard in one conversation.
#[derive(Debug, Default)]
struct Heard {
    commands: Vec<String>,
    mail: String,
}

/// Serves one conversation; a command that begins with `refused` gets `with`.
async fn server(refused: &'static str, with: &'static str) -> (String, tokio::task::JoinHandle<Heard>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let heard = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        let mut heard = Heard::default();
        writer.write_all(b"220 test ESMTP\r\n").await.unwrap();
        while let Ok(Some(line)) = lines.next_line().await {
            let word = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            heard.commands.push(line.clone());
            let answer = match word.as_str() {
                _ if !refused.is_empty() && line.starts_with(refused) => with,
                "EHLO" => "250-test\r\n250 8BITMIME",
                "DATA" => {
                    writer.write_all(b"354 go on\r\n").await.unwrap();
                    while let Some(line) = lines.next_line().await.unwrap().filter(|line| line != ".") {
                        heard.mail.push_str(&line);
                        heard.mail.push('\n');
                    }
                    "250 taken as 42"
                }
                "QUIT" => {
                    let _ = writer.write_all(b"221 bye\r\n").await;
                    break;
                }
                _ => "250 ok",
            };
            if writer.write_all(format!("{answer}\r\n").as_bytes()).await.is_err() {
                break;
            }
        }
        heard
    });
    (url, heard)
}

async fn outcome(url: &str, payload: &str) -> Outcome {
    let job = Job {
        id: TaskId::new("t1").unwrap(),
        kind: Name::new("email").unwrap(),
        queue: Name::new("default").unwrap(),
        priority: Priority::default(),
        payload: Payload::Json(payload.to_owned().into()),
        metadata: Vec::new(),
        attempt: 1,
        max_retries: 3,
        timeout: Duration::from_secs(60),
        checkpoint: None,
        token: Token { number: 1, secret: 1 },
    };
    let context = Context::new(&job, &job.kind, tokio::time::Instant::now(), job.timeout);
    let settings = Settings { url: url.to_owned(), from: Some("Windlass <robot@example.org>".into()) };
    Email::new(&settings).unwrap().run(context, job).await
}

const MAIL: &str = r#"{"to":["ada@example.org","Bob <bob@example.org>"],"bcc":"eve@example.org",
    "subject":"Grüße","text":"Hello.\n.dot","html":"<p>Hello.</p>"}"#;

#[tokio::test]
async fn a_mail_is_sent_to_all_and_says_what_it_was_given() {
    let (url, heard) = server("", "").await;
    let Outcome::Done(Some(result)) = outcome(&url, MAIL).await else { panic!("not done") };
    let result: serde_json::Value = serde_json::from_slice(result.bytes()).unwrap();
    assert_eq!(result["message_id"], "<t1@example.org>");
    assert_eq!(result["answer"], "taken as 42");
    let heard = heard.await.unwrap();
    let said = |text: &str| heard.commands.iter().any(|command| command.starts_with(text));
    assert!(said("MAIL FROM:<robot@example.org>"), "{heard:?}");
    for to in ["ada", "bob", "eve"] {
        assert!(said(&format!("RCPT TO:<{to}@example.org>")), "{heard:?}");
    }
    for part in [
        "Message-ID: <t1@example.org>",
        "Subject: =?utf-8?",
        "\n..dot",
        "<p>Hello.</p>",
        "multipart/alternative",
    ] {
        assert!(heard.mail.contains(part), "{part} is missing in\n{}", heard.mail);
    }
    assert!(!heard.mail.contains("eve@"), "a blind copy is blind");
}

#[tokio::test]
async fn what_the_server_refuses_decides() {
    let (url, _heard) = server("RCPT TO:<ada", "550 no such user").await;
    let refused = outcome(&url, MAIL).await;
    assert!(matches!(&refused, Outcome::Fatal { error } if error.contains("no such user")), "{refused:?}");
    let (url, _heard) = server("MAIL", "451 come back later").await;
    let later = outcome(&url, MAIL).await;
    assert!(matches!(&later, Outcome::Retry { error } if error.contains("come back later")), "{later:?}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("smtp://{}", listener.local_addr().unwrap());
    drop(listener);
    assert!(matches!(outcome(&nobody, MAIL).await, Outcome::Retry { .. }));
}

#[tokio::test]
async fn a_payload_cannot_smuggle_in_headers_or_recipients() {
    let (url, heard) = server("", "").await;
    let sneaky = r#"{"to":"ada@example.org","subject":"hi\r\nBcc: mallory@example.org","text":"x"}"#;
    assert!(matches!(outcome(&url, sneaky).await, Outcome::Done(_)));
    let heard = heard.await.unwrap();
    assert!(!heard.mail.lines().any(|line| line.starts_with("Bcc:")), "{}", heard.mail);
    assert!(!heard.commands.iter().any(|command| command.contains("mallory")), "{heard:?}");
    let wrong = [
        r#"{"to":"ada@example.org\r\nRCPT TO:<mallory@example.org>"}"#,
        r#"{"to":[]}"#,
        r#"{"to":"nobody"}"#,
        r#"{"to":"a@b.c","colour":"red"}"#,
        r#"{}"#,
    ];
    for payload in wrong {
        let refused = outcome("smtp://127.0.0.1:9", payload).await;
        assert!(matches!(refused, Outcome::Fatal { .. }), "{payload}: {refused:?}");
    }
}

#[test]
fn settings_are_checked_and_keep_their_secret() {
    let settings = |url: &str, from: &str| Settings { url: url.into(), from: Some(from.into()) };
    assert!(Email::new(&settings("http://x", "a@b.c")).is_err());
    assert!(Email::new(&settings("smtp://x", "nobody")).is_err());
    let secret = settings("smtps://user:hunter2@mail.example.org", "a@b.c");
    assert!(!format!("{secret:?} {:?}", Email::new(&secret).unwrap()).contains("hunter2"));
}
