//! Lays the sources over each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::keys::{self, KEYS};
use super::{Mistakes, Origin, Sources, Value};
use crate::cli::output::escape;

/// Looked for in the working directory.
const FILES: [&str; 3] = ["windlass.toml", "windlass.yaml", "windlass.yml"];
/// A short name for the setting that is changed most.
const LOG_ENV: &str = "WINDLASS_LOG";
/// Settings that every program with OpenTelemetry knows; our own names come before them.
const OTEL_ENV: [(&str, &str); 2] =
    [("OTEL_EXPORTER_OTLP_ENDPOINT", "traces.endpoint"), ("OTEL_SERVICE_NAME", "traces.service_name")];

type Values = BTreeMap<&'static str, Value>;

pub(super) fn merge(sources: Sources) -> Result<Values, Mistakes> {
    let mut values: Values = BTreeMap::new();
    let mut wrong = Mistakes::default();
    for key in KEYS {
        values.insert(key.name, Value { text: key.default.into(), origin: Origin::Default });
    }
    for (name, text) in sources.defaults {
        values.insert(name, Value { text, origin: Origin::Default });
    }
    let given = sources.file.map_or_else(found, |path| vec![path]);
    match &given[..] {
        [] => {}
        [path] => add_file(path, &mut values, &mut wrong),
        [first, second, ..] => wrong.0.push(format!(
            "{} and {} are both here: keep one, or name it with --config",
            first.display(),
            second.display()
        )),
    }
    add_env(&sources.env, &mut values, &mut wrong);
    for (name, text, flag) in sources.flags {
        values.insert(name, Value { text, origin: Origin::Flag(flag) });
    }
    if wrong.0.is_empty() { Ok(values) } else { Err(wrong) }
}

fn found() -> Vec<PathBuf> {
    FILES.iter().map(PathBuf::from).filter(|path| path.is_file()).collect()
}

/// The file as sections and keys, whichever language it is written in.
fn parse(path: &Path, text: &str) -> Result<toml::Table, String> {
    let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    match is_yaml {
        true => from_yaml(text).map_err(|error| error.to_string()),
        false => text.parse().map_err(|error: toml::de::Error| error.to_string()),
    }
}

/// Where everything is commented out, nothing is set: in a section or in the whole file.
fn from_yaml(text: &str) -> Result<toml::Table, serde_saphyr::Error> {
    let sections: Option<BTreeMap<String, Option<toml::Value>>> = serde_saphyr::from_str(text)?;
    Ok(sections
        .unwrap_or_default()
        .into_iter()
        .filter_map(|(name, content)| Some((name, content?)))
        .collect())
}

fn add_file(path: &Path, values: &mut Values, wrong: &mut Mistakes) {
    let place = path.display();
    let table = match std::fs::read_to_string(path) {
        Ok(text) => match parse(path, &text) {
            Ok(table) => table,
            Err(error) => return wrong.0.push(format!("{place}: {}", error.trim_end())),
        },
        Err(error) => return wrong.0.push(format!("{place}: {error}")),
    };
    for (section, content) in table {
        let toml::Value::Table(content) = content else {
            wrong.0.push(format!(
                "{place}: {} is outside of any section{}",
                escape(&section),
                keys::nearest(&section)
            ));
            continue;
        };
        for (key, value) in content {
            let name = format!("{section}.{key}");
            let Some(known) = keys::find(&name) else {
                wrong.0.push(format!("{place}: unknown key {}{}", escape(&name), keys::nearest(&name)));
                continue;
            };
            match scalar(value) {
                Ok(text) => {
                    values.insert(known.name, Value { text, origin: Origin::File(path.to_owned()) });
                }
                Err(kind) => wrong.0.push(format!("{place}: {name}: expected a single value, found {kind}")),
            }
        }
    }
}

fn scalar(value: toml::Value) -> Result<String, &'static str> {
    match value {
        toml::Value::String(text) => Ok(text),
        toml::Value::Array(_) | toml::Value::Table(_) => Err(value.type_str()),
        other => Ok(other.to_string()),
    }
}

/// `WINDLASS_SECTION__KEY`, or with `_FILE` the path of a file that holds the value.
fn add_env(env: &[(String, String)], values: &mut Values, wrong: &mut Mistakes) {
    // Set to nothing they count as not set.
    for (name, text) in env.iter().filter(|(_, text)| !text.is_empty()) {
        if let Some((_, key)) = OTEL_ENV.iter().find(|(known, _)| known == name) {
            values.insert(key, Value { text: text.clone(), origin: Origin::Env(name.clone()) });
        }
    }
    for (name, text) in env {
        if name == LOG_ENV {
            values.insert("log.level", Value { text: text.clone(), origin: Origin::Env(name.clone()) });
            continue;
        }
        let Some(rest) = name.strip_prefix("WINDLASS_").filter(|rest| rest.contains("__")) else { continue };
        let key = rest.to_ascii_lowercase().replacen("__", ".", 1);
        let (known, text) = match (keys::find(&key), key.strip_suffix("_file").and_then(keys::find)) {
            (Some(known), _) => (known, text.clone()),
            (None, Some(known)) => match std::fs::read_to_string(text) {
                Ok(content) => (known, content.trim_end().to_owned()),
                Err(error) => {
                    wrong.0.push(format!("environment {name}: {}: {error}", escape(text)));
                    continue;
                }
            },
            (None, None) => {
                wrong.0.push(format!(
                    "environment {}: unknown key {}{}",
                    escape(name),
                    escape(&key),
                    keys::nearest(&key)
                ));
                continue;
            }
        };
        values.insert(known.name, Value { text, origin: Origin::Env(name.clone()) });
    }
}
