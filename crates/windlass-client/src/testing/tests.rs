use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::Submit;
use crate::worker::{Context, Failure, Outcome};

#[tokio::test]
async fn hours_of_delays_and_retries_take_no_time() {
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let testing = Testing::start(|worker| {
        worker
            .handler("flaky", move |context: Context, _: ()| {
                count.fetch_add(1, Ordering::SeqCst);
                async move { if context.attempt() < 4 { Err(Failure::retry("not yet")) } else { Ok("at last") } }
            })
            .handler("hopeless", |_: Context, _: ()| async { Outcome::retry("never") })
    });
    let testing = testing.unwrap();
    let client = testing.client();
    let began = testing.clock.now().wall;
    let flaky = Submit::new("flaky", &()).unwrap().delay(Duration::from_secs(7200));
    let hopeless = Submit::new("hopeless", &()).unwrap().max_retries(9);
    let nobody = Submit::new("unknown", &()).unwrap();
    let ids = [&flaky, &hopeless, &nobody].map(|submit| submit.task_id().clone());
    client.submit_batch(&[flaky, hopeless, nobody]).await.unwrap();
    testing.drain().await;
    assert_eq!(client.result::<String>(&ids[0], Duration::ZERO).await.unwrap(), "at last");
    assert_eq!(runs.load(Ordering::SeqCst), 4);
    let dead = client.task(&ids[1]).await.unwrap();
    assert_eq!((dead.state, dead.attempts), (StateName::DeadLetter, 10));
    assert_eq!(client.task(&ids[2]).await.unwrap().state, StateName::Pending, "nobody handles it");
    assert!(testing.clock.now().wall - began >= 7_200_000, "the clock has moved over the delay");
    testing.stop().await;
}

#[tokio::test]
async fn tasks_that_handlers_submit_are_seen() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Mail {
        to: String,
    }
    let line: Arc<std::sync::OnceLock<Client>> = Arc::default();
    let producer = line.clone();
    let testing = Testing::start(|worker| {
        worker.handler("signup", move |_: Context, name: String| {
            let client = producer.get().cloned();
            async move {
                let client = client.ok_or_else(|| Failure::fatal("no client"))?;
                let mail = Mail { to: format!("{name}@example.org") };
                client.submit(Submit::new("email", &mail)?.delay(Duration::from_secs(60))).await?;
                Ok::<_, Failure>(())
            }
        })
    });
    let testing = testing.unwrap();
    line.set(testing.client()).unwrap();
    testing.client().submit(Submit::new("signup", "ada").unwrap()).await.unwrap();
    testing.drain().await;
    let task = testing.assert_submitted("email", |mail: &Mail| mail.to == "ada@example.org").await;
    assert_eq!(task.state, StateName::Pending, "due, and left to another worker");
    assert_eq!(testing.submitted("email").await.len(), 1);
    let missing = testing.assert_submitted("email", |mail: &Mail| mail.to.is_empty());
    let testing_failed = std::panic::AssertUnwindSafe(missing);
    let panic = futures_util::FutureExt::catch_unwind(testing_failed).await.unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("no such task of type email") && message.contains("ada@"), "{message}");
    testing.stop().await;
}
