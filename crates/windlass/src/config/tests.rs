use super::*;

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("windlass.toml");
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

fn mistakes(text: &str, env: &[(&str, &str)]) -> String {
    let (_dir, path) = file(text);
    let env = env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let sources = Sources { file: Some(path.clone()), env, ..Sources::default() };
    let wrong = match Resolved::load(sources) {
        Ok(resolved) => Settings::read(&resolved).unwrap_err(),
        Err(wrong) => wrong,
    };
    wrong.to_string().replace(&*path.to_string_lossy(), "windlass.toml")
}

#[test]
fn each_layer_goes_over_the_one_below() {
    let (dir, path) = file(
        "[server]\nhttp_addr = \"127.0.0.1:1\"\ndrain = \"1s\"\n[queue]\nlease = \"7s\"\nmax_depth = 9\n",
    );
    let secret = dir.path().join("depth");
    std::fs::write(&secret, "12\n").unwrap();
    let sources = Sources {
        file: Some(path.clone()),
        env: vec![
            ("WINDLASS_SERVER__HTTP_ADDR".into(), "127.0.0.1:2".into()),
            ("WINDLASS_QUEUE__LEASE".into(), "8s".into()),
            ("WINDLASS_QUEUE__MAX_DEPTH_FILE".into(), secret.to_string_lossy().into_owned()),
            ("WINDLASS_LOG".into(), "debug".into()),
            ("WINDLASS_SERVER".into(), "http://elsewhere".into()),
        ],
        flags: vec![("server.http_addr", "127.0.0.1:3".into(), "--http-addr")],
        defaults: vec![("store.url", "memory".into())],
    };
    let resolved = Resolved::load(sources).unwrap();
    let settings = Settings::read(&resolved).unwrap();
    assert_eq!(settings.http_addr.port(), 3);
    assert_eq!(settings.lease, Duration::from_secs(8));
    assert_eq!(settings.drain, Duration::from_secs(1));
    assert_eq!(settings.max_depth, Some(12));
    assert_eq!(settings.log_level, "debug");
    assert_eq!(settings.store, value::StoreKind::Memory);
    let origin =
        |name: &str| resolved.entries().find(|(key, _)| key.name == name).unwrap().1.origin.to_string();
    assert_eq!(origin("server.http_addr"), "flag --http-addr");
    assert_eq!(origin("queue.lease"), "environment WINDLASS_QUEUE__LEASE");
    assert_eq!(origin("server.drain"), path.to_string_lossy());
    assert_eq!(origin("store.durability"), "default");
}

#[test]
fn yaml_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let load = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        Resolved::load(Sources { file: Some(path), ..Sources::default() })
    };
    let text =
        "server:\n  http_addr: 127.0.0.1:1\n  connections_max: 77\nqueue: {lease: 7s, max_depth: none}\n";
    let settings = Settings::read(&load("windlass.yaml", text).unwrap()).unwrap();
    assert_eq!(settings.http_addr.port(), 1);
    assert_eq!(settings.connections_max, 77);
    assert_eq!(settings.lease, Duration::from_secs(7));
    assert!(load("empty.yml", "# nothing yet\n").is_ok());
    assert!(load("empty.yml", "server:\n  # http_addr: 127.0.0.1:1\nqueue:\n  lease: 7s\n").is_ok());
    for (text, part) in [
        ("server:\n  htpp_addr: x\n", "unknown key server.htpp_addr; did you mean server.http_addr?"),
        ("lease: 7s\n", "lease is outside of any section"),
        ("queue:\n  max_depth: [1]\n", "queue.max_depth: expected a single value, found array"),
        ("queue:\n  lease: 7s\n  lease: 8s\n", "duplicate"),
        ("server: [\n", "windlass.yaml: "),
        ("- server\n", "windlass.yaml: "),
    ] {
        let wrong = load("windlass.yaml", text).unwrap_err().to_string();
        assert!(wrong.contains(part), "{part}\n---\n{wrong}");
    }
}

#[test]
fn the_defaults_are_valid() {
    let nothing = Sources { file: None, ..Sources::default() };
    let resolved = Resolved::load(nothing).unwrap();
    assert!(Settings::read(&resolved).is_ok());
}

#[test]
fn unknown_keys_name_the_nearest() {
    assert_eq!(
        mistakes("[server]\nhtpp_addr = \"x\"\n[nonsense]\nwhat = 1\n", &[]),
        "windlass.toml: unknown key nonsense.what\nwindlass.toml: unknown key server.htpp_addr; did you mean server.http_addr?"
    );
    assert_eq!(
        mistakes("[server]\ndurability = \"sync\"\n", &[]),
        "windlass.toml: unknown key server.durability; did you mean store.durability?"
    );
    assert_eq!(
        mistakes("", &[("WINDLASS_STORE__DURABILTY", "os")]),
        "environment WINDLASS_STORE__DURABILTY: unknown key store.durabilty; did you mean store.durability?"
    );
    assert!(
        mistakes("http_addr = \"x\"\n", &[])
            .contains("http_addr is outside of any section; did you mean server.http_addr?")
    );
}

#[test]
fn wrong_values_name_place_and_key() {
    let text = "[queue]\nlease = 30\nmax_depth = [1]\n";
    assert_eq!(mistakes(text, &[]), "windlass.toml: queue.max_depth: expected a single value, found array");
    let text = "[queue]\nlease = 30\nmax_depth = -1\n[store]\nurl = \"postgres://x\"\ndurability = \"often\"\n[log]\nlevel = \"loud\"\n";
    let told = mistakes(text, &[("WINDLASS_SERVER__HTTP_ADDR", "here")]);
    for part in [
        "windlass.toml: queue.lease = \"30\": expected a duration like",
        "windlass.toml: queue.max_depth = \"-1\": expected a number from 1, or none",
        "store.url = \"postgres://x\": this version has the stores embedded, memory and redis only",
        "store.durability = \"often\": expected sync, interval:50ms or os",
        "log.level = \"loud\": expected error",
        "environment WINDLASS_SERVER__HTTP_ADDR: server.http_addr = \"here\": expected an address",
    ] {
        assert!(told.contains(part), "{part}\n---\n{told}");
    }
    assert!(mistakes("[server\n", &[]).starts_with("windlass.toml: "));
}

#[test]
fn a_reserve_too_small_for_a_checkpoint_is_refused() {
    let text = |reserve: &str, more: &str| format!("[store]\ndisk_reserve_bytes = \"{reserve}\"\n{more}");
    let small = "segment_bytes = \"4MiB\"\n";
    for reserve in ["0", "8MiB", "16777215"] {
        assert_eq!(
            mistakes(&text(reserve, small), &[]),
            format!(
                "windlass.toml: store.disk_reserve_bytes = \"{reserve}\": expected at least 16MiB: two files of the log \
                 (store.segment_bytes) and 8MiB, which a checkpoint needs"
            )
        );
    }
    assert!(mistakes(&text("128MiB", ""), &[]).contains("expected at least 136MiB"));
    let accepted = |text: &str| {
        let (_dir, path) = file(text);
        let resolved = Resolved::load(Sources { file: Some(path), ..Sources::default() }).unwrap();
        Settings::read(&resolved).is_ok()
    };
    assert!(accepted(&text("16MiB", small)));
    assert!(accepted(&text("136MiB", "")));
    assert!(accepted(&text("0", "url = \"memory\"\n")), "it says nothing about other stores");
}

#[test]
fn durations_and_sizes() {
    let ms = |text: &str| value::duration(text).map(|length| length.as_millis()).ok();
    assert_eq!(ms("500ms"), Some(500));
    assert_eq!(ms("1.5s"), Some(1500));
    assert_eq!(ms("2h"), Some(7_200_000));
    for noise in ["", "5", "s", "-1s", "5 s", "1e3s", "5weeks", "99999999d", "."] {
        assert_eq!(ms(noise), None, "{noise}");
    }
    let bytes = |text: &str| value::Bytes::from_text(text).map(|bytes| bytes.0).ok();
    assert_eq!(bytes("64MiB"), Some(64 << 20));
    assert_eq!(bytes("10 MB"), Some(10_000_000));
    for noise in ["", "MB", "-1", "1.5MB", "99999999999GiB", "5XB"] {
        assert_eq!(bytes(noise), None, "{noise}");
    }
}

#[test]
fn passwords_are_not_shown() {
    let shown = |text| super::without_secrets(text);
    assert_eq!(shown("redis://me:secret@host:1/2?prefix=x"), "redis://***@host:1/2?prefix=x");
    assert_eq!(shown("redis+unix:///r.sock?pass=secret&db=1"), "redis+unix:///r.sock?pass=***&db=1");
    let watched = "redis+sentinel://me:secret@a,b/shop?sentinel_pass=secret";
    assert_eq!(shown(watched), "redis+sentinel://***@a,b/shop?sentinel_pass=***");
    assert_eq!(shown("embedded"), "embedded");
}
