//! A backup in a directory: the stream in `chunks`, and `manifest.json`, written last.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Error, Manifest};

pub const CHUNKS: &str = "chunks";
pub const MANIFEST: &str = "manifest.json";
const MANIFEST_BYTES_MAX: u64 = super::CHUNK_BYTES_MAX as u64;
/// How much is read or written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A directory that a backup is written to. It is not a backup before [`Target::finish`].
#[derive(Debug)]
pub struct Target {
    dir: PathBuf,
    file: File,
}

impl Target {
    /// Creates the directory, which must be missing or empty.
    pub fn create(dir: &Path) -> Result<Target, Error> {
        match fs::read_dir(dir) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(Error::NotEmpty(dir.display().to_string()));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut builder = DirBuilder::new();
                builder.recursive(true).mode(0o700).create(dir).map_err(io_error("make", dir))?;
            }
            Err(error) => return Err(io_error("read", dir)(error)),
        }
        let file = private(&dir.join(CHUNKS))?;
        Ok(Target { dir: dir.to_owned(), file })
    }

    /// Completes the backup by writing its manifest. The stream must be written and verified.
    pub fn finish(self, manifest: &Manifest) -> Result<(), Error> {
        let chunks = self.dir.join(CHUNKS);
        self.file.sync_all().map_err(io_error("sync", &chunks))?;
        let text = serde_json::to_vec_pretty(manifest)
            .map_err(|error| io_error("write", &self.dir.join(MANIFEST))(io::Error::other(error)))?;
        let (unfinished, path) = (self.dir.join("manifest.json.new"), self.dir.join(MANIFEST));
        let mut file = private(&unfinished)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(io_error("write", &unfinished))?;
        fs::rename(&unfinished, &path).map_err(io_error("rename", &unfinished))?;
        sync_dir(&self.dir)?;
        match self.dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
            _ => sync_dir(Path::new(".")),
        }
    }

    /// Removes what was written, after a failure.
    pub fn abandon(self) {
        let _ = fs::remove_file(self.dir.join(CHUNKS));
        let _ = fs::remove_file(self.dir.join("manifest.json.new"));
        // This also removes an empty directory that was there before. It fails if the directory is not empty.
        let _ = fs::remove_dir(&self.dir);
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens a backup, which is a directory or a file with a stream, and reads its stream.
pub fn open(path: &Path) -> Result<Stored, Error> {
    if !path.is_dir() {
        let file = File::open(path).map_err(io_error("open", path))?;
        return Ok(Stored { input: BufReader::with_capacity(BUFFER_BYTES, file), manifest: None });
    }
    let (chunks, manifest) = (path.join(CHUNKS), path.join(MANIFEST));
    if !manifest.is_file() {
        return Err(match chunks.exists() {
            true => Error::NoManifest(manifest.display().to_string()),
            false => Error::NotABackup,
        });
    }
    let mut text = Vec::new();
    File::open(&manifest)
        .and_then(|file| file.take(MANIFEST_BYTES_MAX).read_to_end(&mut text))
        .map_err(io_error("read", &manifest))?;
    let file = File::open(&chunks).map_err(io_error("open", &chunks))?;
    Ok(Stored { input: BufReader::with_capacity(BUFFER_BYTES, file), manifest: Some(text) })
}

/// A backup on the disk.
#[derive(Debug)]
pub struct Stored {
    input: BufReader<File>,
    /// The text of `manifest.json`; `None` for a file.
    manifest: Option<Vec<u8>>,
}

impl Stored {
    /// Checks that `manifest.json` equals the manifest of the stream, which must have been read to its end.
    pub fn check(&self, manifest: &Manifest) -> Result<(), Error> {
        let Some(text) = &self.manifest else { return Ok(()) };
        match serde_json::to_vec_pretty(manifest) {
            Ok(expected) if expected == *text => Ok(()),
            _ => Err(Error::Damaged {
                at: manifest.bytes,
                what: format!("{MANIFEST} is not the manifest of the stream"),
            }),
        }
    }
}

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

fn private(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).map_err(io_error("write", path))
}

fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    Error::io(format!("{action} {}", path.display()))
}
