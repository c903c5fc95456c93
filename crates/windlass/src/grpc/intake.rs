//! Messages on their way in, counted in the memory budget while they are not complete.
//!
//! A client may send half a message and leave it at that, on every stream that it may open. A message that is complete goes straight to its
//! handler, and from there to the store, which bounds what it takes in.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use windlass_core::limits::UNCOUNTED_BYTES_MAX;

use super::refusal;
use crate::server::BUFFER_BYTES_MAX;
use crate::server::budget::{Account, Purse};

/// A flag and the length stand before every message.
const PREFIX_BYTES: usize = 5;

pub(super) struct Intake {
    body: Incoming,
    purse: Purse,
    begun: Begun,
}

impl Intake {
    pub(super) fn new(body: Incoming, account: &Arc<Account>) -> Self {
        Self { body, purse: Purse::of_call(Arc::clone(account)), begun: Begun::default() }
    }
}

impl Body for Intake {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.begun.bytes() > 0 {
            this.purse.set_reading(false);
            let (come, missing) = (this.begun.bytes(), this.begun.missing());
            if !ready!(this.purse.poll_set(cx, come + missing.min(BUFFER_BYTES_MAX), come + missing)) {
                return Poll::Ready(Some(Err(refusal::overloaded().into())));
            }
        }
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            this.purse.note_reading(cx, this.begun.bytes() > 0);
            return Poll::Pending;
        };
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.begun.add(data);
            if this.begun.bytes() <= UNCOUNTED_BYTES_MAX {
                this.purse.set(0);
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The message that has begun and is not complete.
#[derive(Debug, Default, PartialEq, Eq)]
struct Begun {
    prefix: [u8; PREFIX_BYTES],
    /// How much of the prefix has come.
    known: usize,
    length: usize,
    /// How much of the message has come.
    come: usize,
}

impl Begun {
    fn bytes(&self) -> usize {
        self.known + self.come
    }

    fn missing(&self) -> usize {
        self.length - self.come
    }

    fn add(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.known < PREFIX_BYTES {
                let part = data.len().min(PREFIX_BYTES - self.known);
                self.prefix[self.known..][..part].copy_from_slice(&data[..part]);
                (self.known, data) = (self.known + part, &data[part..]);
                if self.known == PREFIX_BYTES {
                    let [_, length @ ..] = self.prefix;
                    self.length = u32::from_be_bytes(length) as usize;
                }
            }
            let part = data.len().min(self.missing());
            (self.come, data) = (self.come + part, &data[part..]);
            if self.known == PREFIX_BYTES && self.missing() == 0 {
                *self = Self::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_that_is_not_complete_counts() {
        let message = |length: u32| [&[0][..], &length.to_be_bytes(), &vec![7; length as usize]].concat();
        let whole = [message(3), message(0), message(300)].concat();
        for step in [1, 2, 5, 7, 400] {
            let mut begun = Begun::default();
            whole.chunks(step).for_each(|piece| begun.add(piece));
            assert_eq!(begun, Begun::default(), "by {step}");
            begun.add(&message(10)[..12]);
            assert_eq!((begun.bytes(), begun.missing()), (12, 3));
        }
        let mut begun = Begun::default();
        begun.add(&[0, 255, 255]);
        assert_eq!((begun.bytes(), begun.missing()), (3, 0));
    }
}
