//! Sends a mail over SMTP. The server is the worker's setting; a task says only to whom and what.
//!
//! The mail's id is made of the task's: if an answer gets lost and the task runs again, the second copy carries the same
//! Message-ID, and mail stores that look at it keep one. Addresses and headers are built from their parts, so no payload
//! can add a header or a recipient that is not in its fields.

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use serde::Deserialize;
use serde_json::json;

use crate::worker::{Context, Failure, Handler, IntoOutcome, Job, Outcome};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Of one mail, all fields together.
const RECIPIENTS_MAX: usize = 100;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `smtps://user:password@host` for TLS from the start, `smtp://…?tls=required` for STARTTLS, `smtp://…` for
    /// neither; a port may follow the host.
    pub url: String,
    /// The sender of mails that name none.
    #[serde(default)]
    pub from: Option<String>,
}

impl std::fmt::Debug for Settings {
    /// The URL may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("from", &self.from).finish_non_exhaustive()
    }
}

/// Why there is no mail handler.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSettings {
    #[error("the SMTP address is not understood: {0}")]
    Url(String),
    #[error("{0:?} is no mail address")]
    From(String),
}

#[derive(Debug, Clone)]
pub struct Email {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Option<Mailbox>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    to: Addresses,
    #[serde(default)]
    cc: Addresses,
    #[serde(default)]
    bcc: Addresses,
    from: Option<String>,
    reply_to: Option<String>,
    #[serde(default)]
    subject: String,
    text: Option<String>,
    html: Option<String>,
}

/// One address, or a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Addresses {
    One(String),
    Many(Vec<String>),
}

impl Default for Addresses {
    fn default() -> Self {
        Addresses::Many(Vec::new())
    }
}

impl Addresses {
    fn list(&self) -> &[String] {
        match self {
            Addresses::One(address) => std::slice::from_ref(address),
            Addresses::Many(addresses) => addresses,
        }
    }
}

impl Email {
    pub fn new(settings: &Settings) -> Result<Self, InvalidSettings> {
        // Only the first call of a process has an effect; a provider that the program chose itself stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(&settings.url)
            .map_err(|error| InvalidSettings::Url(error.to_string()))?
            .timeout(Some(TIMEOUT))
            .build();
        let from = settings
            .from
            .as_deref()
            .map(|text| text.parse::<Mailbox>().map_err(|_| InvalidSettings::From(text.to_owned())));
        Ok(Self { transport, from: from.transpose()? })
    }

    async fn send(&self, context: &Context, job: &Job) -> Result<serde_json::Value, Failure> {
        let message = self.message(context, job.json()?)?;
        let id = message.headers().get_raw("Message-ID").unwrap_or_default().to_owned();
        let answer = self.transport.send(message).await.map_err(failure)?;
        let said: Vec<&str> = answer.message().collect();
        Ok(json!({ "message_id": id, "code": answer.code().to_string(), "answer": said.join(" ") }))
    }

    fn message(&self, context: &Context, input: Input) -> Result<Message, Failure> {
        let from = match &input.from {
            Some(from) => mailbox("from", from)?,
            None => self.from.clone().ok_or_else(|| Failure::fatal("from: is missing"))?,
        };
        let id = format!("<{}@{}>", context.task_id(), from.email.domain());
        let mut builder = Message::builder().from(from).subject(input.subject).message_id(Some(id));
        let recipients = [("to", &input.to), ("cc", &input.cc), ("bcc", &input.bcc)];
        let count: usize = recipients.iter().map(|(_, addresses)| addresses.list().len()).sum();
        if !(1..=RECIPIENTS_MAX).contains(&count) {
            return Err(Failure::fatal(format!("to: 1 to {RECIPIENTS_MAX} recipients, not {count}")));
        }
        for (field, addresses) in recipients {
            for address in addresses.list() {
                let address = mailbox(field, address)?;
                builder = match field {
                    "to" => builder.to(address),
                    "cc" => builder.cc(address),
                    _ => builder.bcc(address),
                };
            }
        }
        if let Some(address) = &input.reply_to {
            builder = builder.reply_to(mailbox("reply_to", address)?);
        }
        let html = |html| SinglePart::builder().header(ContentType::TEXT_HTML).body(html);
        let built = match (input.text, input.html) {
            (Some(text), Some(rich)) => builder.multipart(
                MultiPart::alternative().singlepart(SinglePart::plain(text)).singlepart(html(rich)),
            ),
            (None, Some(rich)) => builder.singlepart(html(rich)),
            (text, None) => builder.singlepart(SinglePart::plain(text.unwrap_or_default())),
        };
        built.map_err(Failure::fatal)
    }
}

impl Handler for Email {
    fn run(&self, context: Context, job: Job) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let email = self.clone();
        // A mail under way is not stopped: nobody could tell whether it was sent.
        Box::pin(async move { email.send(&context, &job).await.into_outcome() })
    }
}

fn mailbox(field: &str, text: &str) -> Result<Mailbox, Failure> {
    text.parse().map_err(|error| Failure::fatal(format!("{field}: {text:?} is no mail address: {error}")))
}

/// What the server refuses for good (5xx) no retry will change; everything else may pass.
fn failure(error: smtp::Error) -> Failure {
    let text = match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    if error.is_permanent() { Failure::fatal(text) } else { Failure::retry(text) }
}
