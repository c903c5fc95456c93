//! The stores that people name.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use windlass_store::embedded::{self, EmbeddedStore};
use windlass_store::redis;
use windlass_store::{Error, Store, SystemClock};

use crate::cli::error::{CONFLICT, ERROR, Failure, NOT_FOUND, UNAVAILABLE};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Directory(PathBuf),
    /// By this URL, which may hold a password, and what may be shown of it.
    Redis {
        url: String,
        shown: String,
    },
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Source,
    /// The destination, which an earlier run may have left unfinished.
    Destination,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("redis") && text.contains("://") {
            let options = redis::Options::parse(text).map_err(|error| error.to_string())?;
            return Ok(Place::Redis { url: text.to_owned(), shown: options.to_string() });
        }
        match text {
            "" => Err("expected a directory or a URL like redis://localhost".into()),
            "memory" => Err("what is in memory is in a running broker only".into()),
            "embedded" => Err("expected the directory of the embedded store".into()),
            _ if text.contains("://") => Err("expected a directory or a URL like redis://localhost".into()),
            _ => Ok(Place::Directory(text.into())),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Directory(dir) => write!(f, "{}", dir.display()),
            Place::Redis { shown, .. } => f.write_str(shown),
        }
    }
}

impl Place {
    /// A store that must be there already.
    pub(super) async fn open_source(&self) -> Result<Arc<dyn Store>, Failure> {
        let there = match self {
            Place::Directory(dir) => dir.join("FORMAT").is_file(),
            Place::Redis { url, .. } => {
                let options = redis::Options::parse(url).map_err(|error| self.failed(&error))?;
                redis::exists(&options).await.map_err(|error| self.failed(&error))?
            }
        };
        if !there {
            return Err(Failure::new(NOT_FOUND, format!("there is no store in {self}")));
        }
        self.open(Purpose::Source).await
    }

    /// A store that may be made. A directory with something else in it is left alone.
    pub(super) async fn open_destination(&self) -> Result<Arc<dyn Store>, Failure> {
        if let Place::Directory(dir) = self
            && !dir.join("FORMAT").is_file()
            && dir.read_dir().is_ok_and(|mut files| files.next().is_some())
        {
            let message = format!("{self} is neither empty nor a store (destination_not_empty)");
            return Err(Failure::new(CONFLICT, message));
        }
        self.open(Purpose::Destination).await
    }

    /// The source of an unfinished migration into this store, if there is one.
    pub(super) async fn unfinished_source(&self) -> Result<Option<String>, Error> {
        match self {
            Place::Directory(dir) => embedded::migration::source(dir),
            Place::Redis { url, .. } => redis::migration::source(&redis::Options::parse(url)?).await,
        }
    }

    /// Marks the store, so that only a migration opens it.
    pub(super) async fn mark(&self, from: &Place) -> Result<(), Error> {
        let from = from.lasting_name();
        match self {
            Place::Directory(dir) => embedded::migration::begin(dir, &from),
            Place::Redis { url, .. } => redis::migration::begin(&redis::Options::parse(url)?, &from).await,
        }
    }

    /// Removes the mark, so that the store can be used.
    pub(super) async fn unmark(&self) -> Result<(), Error> {
        match self {
            Place::Directory(dir) => embedded::migration::end(dir),
            Place::Redis { url, .. } => redis::migration::end(&redis::Options::parse(url)?).await,
        }
    }

    /// A name that is valid on this machine from any directory, without secrets.
    fn lasting_name(&self) -> String {
        match self {
            Place::Directory(dir) => std::path::absolute(dir).as_ref().unwrap_or(dir).display().to_string(),
            Place::Redis { url, .. } => crate::config::without_secrets(url),
        }
    }

    /// Opens it, and makes sure that nobody else uses it.
    async fn open(&self, purpose: Purpose) -> Result<Arc<dyn Store>, Failure> {
        let failed = |error: Error| self.failed(&error);
        let unfinished = purpose == Purpose::Destination;
        match self {
            Place::Directory(dir) => {
                let options = embedded::Options { unfinished, ..embedded::Options::new(dir) };
                match EmbeddedStore::open(options, SystemClock::shared()).await {
                    Ok(store) => Ok(store),
                    Err(error @ Error::Locked(_)) => Err(failed(error).hint("stop its broker first")),
                    Err(error) => Err(failed(error)),
                }
            }
            Place::Redis { url, .. } => {
                let options = redis::Options::parse(url).map_err(failed)?;
                let options = if unfinished { options.also_unfinished() } else { options };
                let store = redis::open_alone(options, SystemClock::shared()).await.map_err(failed)?;
                store.ok_or_else(|| {
                    let message = format!("{self} is in use by another process (store_in_use)");
                    Failure::new(CONFLICT, message).hint("stop its brokers and library workers first")
                })
            }
        }
    }

    fn failed(&self, error: &Error) -> Failure {
        let exit = match error {
            Error::Locked(_) | Error::Unfinished { .. } | Error::Restoring(_) => CONFLICT,
            Error::Io { .. } => UNAVAILABLE,
            _ => ERROR,
        };
        Failure::new(exit, format!("cannot open {self}: {error}"))
    }
}
