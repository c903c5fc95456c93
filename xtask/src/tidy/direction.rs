//! Arrows between crates point one way. Each row says which crates of the workspace a crate may use; tests are
//! exempt, so dev-dependencies are not looked at.

use serde_json::Value;

use super::{Finding, tree::Tree};

struct Row {
    package: &'static str,
    may_use: &'static [&'static str],
    /// Allowed only behind a feature.
    may_use_optionally: &'static [&'static str],
}

const ROWS: [Row; 8] = [
    Row { package: "windlass-core", may_use: &[], may_use_optionally: &[] },
    Row { package: "windlass-store", may_use: &["windlass-core"], may_use_optionally: &[] },
    Row {
        package: "windlass-broker",
        may_use: &["windlass-core", "windlass-store"],
        may_use_optionally: &[],
    },
    Row {
        package: "windlass-cluster",
        may_use: &["windlass-core", "windlass-store"],
        may_use_optionally: &[],
    },
    Row { package: "windlass-proto", may_use: &["windlass-core"], may_use_optionally: &[] },
    Row {
        package: "windlass-client",
        may_use: &["windlass-core", "windlass-proto"],
        may_use_optionally: &["windlass-broker", "windlass-store"],
    },
    Row { package: "windlass-ui", may_use: &[], may_use_optionally: &[] },
    Row {
        package: "windlass",
        may_use: &[
            "windlass-core",
            "windlass-store",
            "windlass-broker",
            "windlass-cluster",
            "windlass-proto",
            "windlass-client",
            "windlass-ui",
        ],
        may_use_optionally: &[],
    },
];

/// Never shipped, so they may use everything.
const UNBOUND: [&str; 5] = ["peers", "windlass-prove", "windlass-sim", "sim", "xtask"];

const CORE: &str = "windlass-core";

/// Each of these brings a clock, randomness, threads or a disk into the place that must stay pure.
const BANNED_IN_CORE: [&str; 6] = ["tokio", "rand", "redb", "axum", "uuid", "parking_lot"];

const MANIFESTS: &str = "Cargo.toml";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let packages = tree.metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let members: Vec<&str> = packages.iter().map(name).collect();
    packages.iter().flat_map(|package| check_package(package, &members)).collect()
}

fn check_package(package: &Value, members: &[&str]) -> Vec<Finding> {
    let user = name(package);
    if UNBOUND.contains(&user) {
        return Vec::new();
    }
    let Some(row) = ROWS.iter().find(|row| row.package == user) else {
        let message = format!("no row says what `{user}` may use: add one to xtask/src/tidy/direction.rs");
        return vec![Finding::in_file(MANIFESTS, message)];
    };
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let counted = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
    counted.filter_map(|dependency| judge(row, dependency, members)).collect()
}

fn judge(row: &Row, dependency: &Value, members: &[&str]) -> Option<Finding> {
    let (user, used) = (row.package, name(dependency));
    let message = if user == CORE && BANNED_IN_CORE.contains(&used) {
        format!("`{user}` must stay pure and may not use `{used}`")
    } else if !members.contains(&used) || row.may_use.contains(&used) {
        return None;
    } else if !row.may_use_optionally.contains(&used) {
        format!("`{user}` may not use `{used}`: arrows between crates point the other way")
    } else if dependency["optional"] != true {
        format!("`{user}` may use `{used}` only as an optional dependency")
    } else {
        return None;
    };
    Some(Finding::in_file(&format!("crates/{user}/{MANIFESTS}"), message))
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// One package with one dependency, in a workspace that has every crate of the table.
    fn check_edge(user: &str, dependency: Value) -> Option<String> {
        let mut packages: Vec<Value> = ROWS.iter().map(|row| json!({"name": row.package})).collect();
        packages.push(json!({"name": user, "dependencies": [dependency]}));
        let tree = Tree { metadata: json!({"packages": packages}), ..Tree::of(&[]) };
        check(&tree).pop().map(|finding| finding.to_string())
    }

    fn plain(name: &str) -> Value {
        json!({"name": name, "kind": null, "optional": false})
    }

    #[test]
    fn arrows_in_the_right_direction_pass() {
        for (user, used) in [
            ("windlass-store", "windlass-core"),
            ("windlass-broker", "windlass-store"),
            ("windlass-proto", "windlass-core"),
            ("windlass-client", "windlass-proto"),
            ("windlass", "windlass-client"),
            ("windlass-prove", "windlass"),
            ("windlass-core", "jiff"),
            ("windlass-store", "tokio"),
        ] {
            assert_eq!(check_edge(user, plain(used)), None, "{user} -> {used}");
        }
    }

    #[test]
    fn arrows_in_the_wrong_direction_fail() {
        for (user, used) in [
            ("windlass-core", "windlass-store"),
            ("windlass-store", "windlass-broker"),
            ("windlass-broker", "windlass-proto"),
            ("windlass-proto", "windlass-store"),
            ("windlass-client", "windlass-broker"),
            ("windlass-client", "windlass"),
            ("windlass-core", "tokio"),
            ("windlass-core", "uuid"),
            ("windlass-new", "jiff"),
        ] {
            assert!(check_edge(user, plain(used)).is_some(), "{user} -> {used} was accepted");
        }
    }

    #[test]
    fn kinds_of_dependencies_differ() {
        let edge = |kind: &str, optional: bool| json!({"name": "windlass-broker", "kind": kind, "optional": optional});
        assert_eq!(check_edge("windlass-client", edge("normal", true)), None);
        assert_eq!(check_edge("windlass-core", edge("dev", false)), None);
        assert!(check_edge("windlass-core", edge("build", false)).is_some());
    }
}
