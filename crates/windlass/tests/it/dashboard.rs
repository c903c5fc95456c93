//! The dashboard as a browser fetches it. What it shows is tested in a real browser, in `crates/windlass-ui/app/test`.

use crate::broker_process::BrokerProcess;

#[test]
fn the_binary_serves_its_dashboard() {
    let broker = BrokerProcess::start();
    let mut client = broker.client();
    let page = client.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    for path in ["/app.js", "/app.css", "/icon.svg"] {
        let file = client.get(path);
        assert!(page.text.contains(&format!(".{path}")), "{path}");
        let tag = file.header("etag").unwrap();
        let again =
            client.send(&format!("GET {path} HTTP/1.1\r\nhost: t\r\nif-none-match: {tag}\r\n\r\n"), b"");
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
    }
    assert_eq!(client.post("/", "{}").status, 405);
    assert_eq!(client.get("/index.html").expect(404)["code"], "no_such_route");
}
