//! Outcomes in messages that the broker takes. One that is larger than it allows ends the stream, so it is never sent.

use prost::Message;
use windlass_proto::grpc::v1::Outcome;

use crate::worker::port::Error;

/// At most, around the outcomes of a batch: its number, and the tags and lengths of the message.
const AROUND_BATCH: usize = 32;
/// At most, around one outcome: its tag and length.
const AROUND_OUTCOME: usize = 6;

/// A piece of what is to be reported, in its order.
#[derive(Debug)]
pub(super) enum Part {
    Batch(Vec<Outcome>),
    /// One outcome that no message can carry.
    TooLarge(Error),
}

/// Splits `outcomes` into batches of at most `count_max`, in messages of at most `bytes_max`.
pub(super) fn batches(
    outcomes: impl Iterator<Item = Outcome>,
    count_max: usize,
    bytes_max: usize,
) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut batch, mut size) = (Vec::new(), AROUND_BATCH);
    for outcome in outcomes {
        let bytes = outcome.encoded_len() + AROUND_OUTCOME;
        let alone = AROUND_BATCH + bytes > bytes_max;
        if !batch.is_empty() && (alone || batch.len() == count_max || size + bytes > bytes_max) {
            parts.push(Part::Batch(std::mem::take(&mut batch)));
            size = AROUND_BATCH;
        }
        if alone {
            parts.push(Part::TooLarge(too_large(bytes, bytes_max)));
        } else {
            size += bytes;
            batch.push(outcome);
        }
    }
    if !batch.is_empty() {
        parts.push(Part::Batch(batch));
    }
    parts
}

fn too_large(bytes: usize, bytes_max: usize) -> Error {
    let detail = format!("an outcome of {bytes} bytes, a message may have {bytes_max}");
    Error::Refused { code: "too_large".to_owned(), detail }
}

#[cfg(test)]
mod tests {
    use windlass_proto::grpc::v1::work_request::Message as Up;
    use windlass_proto::grpc::v1::{Failed, Outcomes, WorkRequest, outcome::Verdict};

    use super::*;

    fn outcome(bytes: usize) -> Outcome {
        let failed = Failed { error: "x".repeat(bytes), ..Failed::default() };
        Outcome { id: "t".into(), lease: "1-1".into(), verdict: Some(Verdict::Failed(failed)) }
    }

    /// The number of outcomes of each batch; `None` for one that is too large.
    fn split(sizes: &[usize], count_max: usize, bytes_max: usize) -> Vec<Option<usize>> {
        let parts = batches(sizes.iter().copied().map(outcome), count_max, bytes_max);
        let count = |part| match part {
            Part::TooLarge(error) => {
                assert!(matches!(&error, Error::Refused { code, .. } if code == "too_large"), "{error}");
                None
            }
            Part::Batch(outcomes) => {
                let count = outcomes.len();
                let batch = Outcomes { sequence: u64::MAX, outcomes, credits: 0 };
                let message = WorkRequest { message: Some(Up::Outcomes(batch)) };
                assert!(message.encoded_len() <= bytes_max, "{}", message.encoded_len());
                Some(count)
            }
        };
        parts.into_iter().map(count).collect()
    }

    #[test]
    fn batches_keep_to_both_limits_and_the_order() {
        assert_eq!(split(&[], 10, 1000), []);
        assert_eq!(split(&[1; 25], 10, 10_000), [Some(10), Some(10), Some(5)]);
        assert_eq!(split(&[400; 5], 10, 1000), [Some(2), Some(2), Some(1)]);
        assert_eq!(split(&[1, 1, 2000, 1], 10, 1000), [Some(2), None, Some(1)]);
        assert_eq!(split(&[2000, 2000], 10, 1000), [None, None]);
        // Every size around the limit is either sent within it or not at all.
        for bytes in 900..1000 {
            split(&[bytes], 10, 1000);
        }
    }
}
