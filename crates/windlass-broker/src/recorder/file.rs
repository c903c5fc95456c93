//! The rings on disk: a checksum, and behind it one message. Columns are named, so a version with other series reads what it
//! knows of them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use prost::Message;
use windlass_core::Name;

use super::axis::Axis;
use super::level::{LEVELS, Track};
use super::queues::{QUEUE_WIDTH, QueueTracks};
use super::series::{Series, WIDTH};

/// A file that is larger was not written by us.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, PartialEq, Message)]
struct Saved {
    #[prost(uint64, tag = "1")]
    axis_ms: u64,
    #[prost(sint64, tag = "2")]
    ahead_ms: i64,
    /// That of all queues has no name.
    #[prost(message, repeated, tag = "3")]
    tracks: Vec<SavedTrack>,
}

#[derive(Clone, PartialEq, Message)]
struct SavedTrack {
    #[prost(string, optional, tag = "1")]
    queue: Option<String>,
    #[prost(message, repeated, tag = "2")]
    columns: Vec<SavedColumn>,
}

#[derive(Clone, PartialEq, Message)]
struct SavedColumn {
    #[prost(string, tag = "1")]
    series: String,
    #[prost(message, repeated, tag = "2")]
    levels: Vec<SavedLevel>,
}

#[derive(Clone, PartialEq, Message)]
struct SavedLevel {
    #[prost(uint64, tag = "1")]
    step_ms: u64,
    /// The number of the first figure.
    #[prost(uint64, tag = "2")]
    first: u64,
    #[prost(float, repeated, tag = "3")]
    figures: Vec<f32>,
}

pub(super) type Restored = (Axis, Track, QueueTracks);

/// What the file has. A file that cannot be read is set aside, under a name that says so.
pub(super) fn load(path: &Path) -> Option<Restored> {
    match read(path) {
        Ok(restored) => restored,
        Err(error) => {
            let aside = path.with_extension("damaged");
            let moved = fs::rename(path, &aside).is_ok();
            let aside = aside.display();
            tracing::warn!(path = %path.display(), %error, moved, %aside, "the recorded metrics cannot be read and begin anew");
            None
        }
    }
}

fn read(path: &Path) -> io::Result<Option<Restored>> {
    match fs::metadata(path) {
        Ok(file) if file.len() > FILE_BYTES_MAX => return Err(damaged("it is too large")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let bytes = fs::read(path)?;
    let (sum, body) = bytes.split_first_chunk().ok_or_else(|| damaged("it is cut off"))?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return Err(damaged("its checksum is wrong"));
    }
    let saved = Saved::decode(body).map_err(|error| damaged(&error.to_string()))?;
    let mut all = Track::new(WIDTH);
    let mut queues = QueueTracks::default();
    for track in saved.tracks {
        match &track.queue {
            None => restore(&mut all, &track, &Series::ALL),
            Some(name) => {
                let name = Name::new(name).map_err(|error| damaged(&error.to_string()))?;
                let mut rows = Track::new(QUEUE_WIDTH);
                restore(&mut rows, &track, &Series::OF_QUEUES);
                queues.restore(name, rows);
            }
        }
    }
    Ok(Some((Axis::saved(saved.axis_ms, saved.ahead_ms), all, queues)))
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Puts the columns together to rows again.
fn restore(into: &mut Track, saved: &SavedTrack, order: &[Series]) {
    let columns: Vec<Option<&SavedColumn>> = order
        .iter()
        .map(|series| saved.columns.iter().find(|column| column.series == series.as_str()))
        .collect();
    for (level, (step_ms, rows)) in into.levels.iter_mut().zip(LEVELS) {
        let levels: Vec<Option<&SavedLevel>> = columns
            .iter()
            .map(|column| column.as_ref()?.levels.iter().find(|level| level.step_ms == step_ms))
            .collect();
        let Some((first, count)) = levels
            .iter()
            .flatten()
            .map(|level| (level.first, level.figures.len().min(rows)))
            .max_by_key(|it| it.1)
        else {
            continue;
        };
        for i in 0..count {
            let number = first.saturating_add(i as u64);
            let figure = |level: &Option<&SavedLevel>| {
                let level = level.filter(|level| level.first == first);
                level.and_then(|level| level.figures.get(i)).copied().unwrap_or(f32::NAN)
            };
            let row: Vec<f32> = levels.iter().map(figure).collect();
            level.put(number, &row);
        }
    }
}

pub(super) fn encode(axis: &Axis, all: &Track, queues: &QueueTracks) -> Vec<u8> {
    let mut tracks = vec![save(all, None, &Series::ALL)];
    tracks.extend(queues.iter().map(|queue| save(&queue.track, Some(&queue.name), &Series::OF_QUEUES)));
    let body = Saved { axis_ms: axis.at_ms, ahead_ms: axis.ahead_ms, tracks }.encode_to_vec();
    [&crc32fast::hash(&body).to_le_bytes()[..], &body].concat()
}

fn save(track: &Track, queue: Option<&Name>, order: &[Series]) -> SavedTrack {
    let columns = order.iter().enumerate().map(|(column, series)| SavedColumn {
        series: series.as_str().to_owned(),
        levels: track
            .levels
            .iter()
            .zip(LEVELS)
            .map(|(level, (step_ms, _))| {
                let numbers = level.numbers();
                let figures = numbers.clone().map(|number| level.figure(number, column)).collect();
                SavedLevel { step_ms, first: numbers.start, figures }
            })
            .collect(),
    });
    SavedTrack { queue: queue.map(|name| name.as_str().to_owned()), columns: columns.collect() }
}

/// The old file or the new one is there at any moment, never a part of one.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(fresh, path)
}
