//! Who may come in: TLS by a private authority, certificates of clients, and users of the access lists.

use std::path::Path;
use std::process::Command;

use windlass_store::clock::ManualClock;
use windlass_store::redis::{Options, RedisStore};
use windlass_store::{Clock, Inserted};

use super::shared::{add, task};
use super::{Server, ask, free_port, fresh_prefix, open};

/// An authority of its own, and certificates for this machine and for a client.
fn certify(dir: &Path) {
    let openssl = |words: &str| {
        let made = Command::new("openssl").args(words.split(' ')).current_dir(dir).output().expect("openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 30 -subj /CN=authority"));
    std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost").expect("a file");
    for who in ["server", "client"] {
        openssl(&format!("req {key} -keyout {who}.key -out {who}.csr -subj /CN={who}"));
        openssl(&format!(
            "x509 -req -in {who}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile names -out {who}.pem"
        ));
    }
}

#[tokio::test]
async fn tls_by_a_private_authority_with_a_certificate_of_the_client() {
    let dir = tempfile::tempdir().expect("a directory");
    certify(dir.path());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let port = free_port().to_string();
    let _server = Server::start(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &file("server.pem"),
        "--tls-key-file",
        &file("server.key"),
        "--tls-ca-cert-file",
        &file("ca.pem"),
        "--tls-auth-clients",
        "yes",
    ]);
    let clock = ManualClock::shared();
    let shown = format!("ca={}&cert={}&key={}", file("ca.pem"), file("client.pem"), file("client.key"));
    let store = open(&format!("rediss://127.0.0.1:{port}?{shown}"), clock.clone()).await;
    assert!(matches!(add(&store, vec![task("a", clock.now().wall)]).await[..], [Inserted::New(_)]));
    for too_little in [String::new(), format!("?ca={}", file("ca.pem"))] {
        let options = Options::parse(&format!("rediss://127.0.0.1:{port}{too_little}")).expect("a URL");
        let refused = RedisStore::open(options, ManualClock::shared()).await.map(drop);
        assert!(refused.is_err(), "{too_little:?}");
    }
}

/// As docs/stores.md names them.
#[tokio::test]
async fn a_user_with_no_more_rights_than_it_needs() {
    let port = free_port();
    let _server = Server::start(&["--port", &port.to_string()]);
    let prefix = fresh_prefix();
    let said = ask(
        port,
        &[
            "ACL",
            "SETUSER",
            "shop",
            "on",
            ">secret",
            &format!("~{{{prefix}}}:*"),
            &format!("&{{{prefix}}}:*"),
        ]
        .into_iter()
        .chain(["+@read", "+@write", "+@scripting", "+@pubsub", "+@connection", "+info"])
        .collect::<Vec<_>>(),
    );
    assert_eq!(said.trim(), "OK");
    let clock = ManualClock::shared();
    let store = open(&format!("redis://shop:secret@127.0.0.1:{port}?prefix={prefix}"), clock.clone()).await;
    assert!(matches!(add(&store, vec![task("a", clock.now().wall)]).await[..], [Inserted::New(_)]));
    assert_eq!(store.claim(super::shared::claim()).await.expect("claim").len(), 1);
    let wrong = Options::parse(&format!("redis://shop:wrong@127.0.0.1:{port}")).expect("a URL");
    assert!(RedisStore::open(wrong, ManualClock::shared()).await.is_err());
}
