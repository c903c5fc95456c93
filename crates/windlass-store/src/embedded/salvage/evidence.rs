//! Determines which store a damaged directory holds.
//!
//! `FORMAT` names the store, unless it is damaged, or the index and the log both name another one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::report::{Loss, Report};
use super::rows::Rows;
use super::{Watch, damaged_log};
use crate::embedded::identity::{Identity, Stage};
use crate::embedded::open::io_error;
use crate::log::{Remains, StoreId};
use crate::store::Error;

#[derive(Debug, Clone)]
pub(super) struct Evidence {
    pub(super) dir: PathBuf,
    /// `None` in a store of an earlier format.
    pub(super) store: Option<StoreId>,
    /// The tables as far as they can be read. `None` if they cannot, or belong to another store.
    pub(super) rows: Option<Arc<Rows>>,
    pub(super) log: Arc<Remains>,
    files: Vec<(PathBuf, String)>,
}

impl Evidence {
    /// Reads the directory. A copy of the index is made in `work`, because opening it may have to repair it.
    pub(super) fn gather(dir: &Path, work: &Path) -> Result<Evidence, Error> {
        let mut files = Vec::new();
        let format = dir.join("FORMAT");
        // Without `FORMAT`, `Identity::read` would begin a new store.
        let named = match fs::metadata(&format) {
            Ok(_) => match Identity::read(dir) {
                Ok(identity) => Some(identity),
                Err(error @ Error::Version { .. }) => return Err(error),
                Err(_) => None,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io_error("read", &format)(error)),
        };
        if named.is_none() {
            files.push((format.clone(), "it is missing or damaged".to_owned()));
        }
        let earlier = named.is_some_and(|identity| identity.stage == Stage::Earlier);
        let mut log = Remains::list(&dir.join("log"), earlier).map_err(damaged_log)?;
        let index = dir.join("index.redb");
        let rows = match index.exists() {
            true => {
                let copy = work.join("index.redb");
                fs::copy(&index, &copy).map_err(io_error("copy", &index))?;
                Rows::open(&copy, dir)
            }
            false => Err("it is missing".to_owned()),
        };
        let mut rows = rows.map_err(|why| files.push((index.clone(), why))).ok().map(Arc::new);
        let in_index = rows.as_ref().and_then(|rows| rows.store);
        let store = match named.filter(|_| !earlier).map(|identity| identity.store) {
            Some(named) if in_index.is_some_and(|found| found != named) && in_index == log.store() => {
                files.push((format, "it belongs to another store".to_owned()));
                in_index
            }
            Some(named) => Some(named),
            None if earlier => None,
            None => in_index.or(log.store()),
        };
        if let Some(store) = store {
            log.keep(store);
            if in_index.is_some_and(|found| found != store) {
                files.push((index, "it belongs to another store".to_owned()));
                rows = None;
            }
        }
        Ok(Evidence { dir: dir.to_owned(), store, rows, log: Arc::new(log), files })
    }

    /// Reports the files that were missing or damaged. They are not a loss by themselves: their data may be elsewhere.
    pub(super) fn report(&self, watch: &mut dyn Watch, report: &mut Report) {
        for (path, why) in self.files.iter().chain(&self.log.broken) {
            let loss = Loss::File { path: path.clone(), why: why.clone() };
            report.count(&loss);
            watch.loss(loss);
        }
    }
}
