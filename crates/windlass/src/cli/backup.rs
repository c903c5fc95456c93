//! `windlass backup …`: takes, checks and restores backups.

mod pipe;
mod show;

use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;
use windlass_store::backup::{self, Error, Manifest, Progress, Relay, folder};
use windlass_store::embedded::{self, EmbeddedStore};
use windlass_store::{Error as StoreError, Store, SystemClock};

use super::args::Connect;
use super::error::{CONFLICT, ERROR, Failure, NOT_FOUND, UNAVAILABLE};
use super::output::Output;
use pipe::{Noting, Pieces};

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass backup create --to ./backup-monday
  windlass backup create --to - | zstd > monday.zst
  windlass backup verify ./backup-monday
  windlass backup restore ./backup-monday --data-dir ./restored")]
pub(crate) enum Command {
    /// Take a backup of a running broker, or of a stopped one
    Create(CreateArgs),
    /// Read a backup to its end and check everything about it
    Verify(VerifyArgs),
    /// Restore a data directory from a backup
    Restore(RestoreArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// A new directory, or - for standard output
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Data directory of a broker that has stopped, instead of a running one
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// A directory, a file with a stream, or - for standard input
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// A directory, a file with a stream, or - for standard input
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The directory to fill: missing or empty
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create(args, output).await,
        Command::Verify(args) => verify(args, output),
        Command::Restore(args) => restore(args, output),
    }
}

async fn create(args: CreateArgs, output: &Output) -> Result<(), Failure> {
    if is_pipe(&args.to) && io::stdout().is_terminal() {
        return Err(Failure::usage("a backup is not text: name a directory, or send it to a file or a pipe"));
    }
    let manifest = match &args.data_dir {
        Some(dir) => stopped(dir, &args.to, output).await?,
        None => {
            let stream = args.connect.client()?.backup().await.map_err(refused)?;
            let pieces = Pieces::from_broker(stream);
            save(pieces, &args.to, output).await?
        }
    };
    show::created(&args.to, is_pipe(&args.to), &manifest, output);
    Ok(())
}

/// Backs up the data directory of a broker that has stopped.
async fn stopped(dir: &Path, to: &Path, output: &Output) -> Result<Manifest, Failure> {
    if !dir.join("FORMAT").is_file() {
        return Err(Failure::new(NOT_FOUND, format!("there is no store in {}", dir.display())));
    }
    let opened = EmbeddedStore::open(embedded::Options::new(dir), SystemClock::shared()).await;
    let store = opened.map_err(|error| {
        let failure = Failure::new(store_exit(&error), format!("cannot open {}: {error}", dir.display()));
        match error {
            StoreError::Locked(_) => failure.hint("its broker is running: back it up with --server"),
            _ => failure,
        }
    })?;
    let source = store.backup().map_err(|error| failed(Error::Store(error)))?;
    let saved = save(Pieces::from_store(source), to, output).await;
    let closed = store.close().await;
    let manifest = saved?;
    closed.map_err(|error| Failure::error(format!("cannot close {}: {error}", dir.display())))?;
    Ok(manifest)
}

/// Writes a stream to its destination, and verifies it on the way.
async fn save(pieces: Pieces, to: &Path, output: &Output) -> Result<Manifest, Failure> {
    let (to, bar) = (to.to_owned(), output.progress());
    let saving = spawn_blocking(move || {
        let mut watch = |progress: Progress| show::progress(&bar, "copied", progress);
        let saved = match is_pipe(&to) {
            true => relay(pieces, &mut io::stdout().lock(), &mut watch),
            false => folder::Target::create(&to).and_then(|mut target| {
                let saved = relay(pieces, &mut target, &mut watch);
                match saved {
                    Ok(manifest) => target.finish(&manifest).map(|()| manifest),
                    Err(error) => {
                        target.abandon();
                        Err(error)
                    }
                }
            }),
        };
        bar.end();
        saved
    });
    saving.await.map_err(|error| Failure::error(error.to_string()))?.map_err(failed)
}

fn relay(from: impl Read, to: &mut impl Write, watch: &mut dyn FnMut(Progress)) -> Result<Manifest, Error> {
    let mut to = Noting { to: BufWriter::with_capacity(1 << 20, to), refused: None };
    let saved = backup::verify(Relay { from, to: &mut to }, watch);
    let flushed = to.flush();
    match to.refused.or(flushed.err()) {
        Some(error) => Err(Error::Io { action: "write the backup".to_owned(), error }),
        None => saved,
    }
}

fn verify(args: VerifyArgs, output: &Output) -> Result<(), Failure> {
    let bar = output.progress();
    let mut watch = |progress: Progress| show::progress(&bar, "checked", progress);
    let found = read_from(&args.path, |input| backup::verify(input, &mut watch), |manifest| manifest);
    bar.end();
    show::verified(&args.path, &found.map_err(failed)?, output);
    Ok(())
}

fn restore(args: RestoreArgs, output: &Output) -> Result<(), Failure> {
    let bar = output.progress();
    let mut watch = |progress: Progress| show::progress(&bar, "restored", progress);
    // This finds a wrong `manifest.json` before anything is written.
    if !is_pipe(&args.path) && args.path.is_dir() {
        let mut checking = |progress: Progress| show::progress(&bar, "checked", progress);
        let checked =
            read_from(&args.path, |input| backup::verify(input, &mut checking), |manifest| manifest);
        checked.map_err(failed)?;
    }
    let restored = read_from(
        &args.path,
        |input| embedded::restore_backup(input, &args.data_dir, &mut watch),
        |restored| &restored.manifest,
    );
    bar.end();
    show::restored(&args.path, &args.data_dir, &restored.map_err(failed)?, output);
    Ok(())
}

/// Reads a backup, and compares `manifest.json` with the stream if there is one.
fn read_from<T>(
    path: &Path,
    read: impl FnOnce(&mut dyn Read) -> Result<T, Error>,
    manifest: impl FnOnce(&T) -> &Manifest,
) -> Result<T, Error> {
    if is_pipe(path) {
        return read(&mut io::BufReader::with_capacity(1 << 20, io::stdin().lock()));
    }
    let mut stored = folder::open(path)?;
    let found = read(&mut stored)?;
    stored.check(manifest(&found))?;
    Ok(found)
}

fn is_pipe(path: &Path) -> bool {
    path == Path::new("-")
}

fn refused(error: windlass_client::Error) -> Failure {
    let (code, status) = (error.code().map(str::to_owned), error.status());
    let failure = Failure::from(error);
    match (code.as_deref(), status) {
        (Some("backup_running"), _) => failure.hint("wait until it has finished, and run the command again"),
        (Some("no_such_route"), _) => failure.hint("this broker is older and does not support backups"),
        (_, Some(507)) => failure.hint("free space on the broker's disk: it has to write a checkpoint first"),
        _ => failure,
    }
}

fn store_exit(error: &StoreError) -> u8 {
    match error {
        StoreError::Locked(_) | StoreError::Unfinished { .. } | StoreError::Restoring(_) => CONFLICT,
        StoreError::Io { .. } | StoreError::NoSpace | StoreError::Busy => UNAVAILABLE,
        _ => ERROR,
    }
}

fn failed(error: Error) -> Failure {
    let exit = match &error {
        Error::NotEmpty(_) => CONFLICT,
        Error::Io { error, .. } if error.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        Error::Io { .. } => UNAVAILABLE,
        Error::Store(error) => store_exit(error),
        _ => ERROR,
    };
    let hint = match &error {
        Error::NotEmpty(_) => "name a directory that is missing or empty",
        Error::Unfinished { .. } | Error::NoManifest(_) => "it was interrupted; take another backup",
        Error::Damaged { .. } => "take another backup, or use an older one",
        Error::Version { .. } | Error::StoreFormat { .. } | Error::UnknownTable(_) => {
            "use the version of Windlass that wrote it, or a newer one"
        }
        Error::NotABackup => "expected the output of `windlass backup create`",
        Error::Io { error, .. } if error.kind() == io::ErrorKind::StorageFull => {
            "free disk space there, or use another destination"
        }
        _ => "",
    };
    let failure = Failure::new(exit, format!("{error} ({})", error.code()));
    if hint.is_empty() { failure } else { failure.hint(hint) }
}
