//! What handlers save, and what they put off.

use super::*;

#[tokio::test]
async fn the_next_attempt_goes_on_where_the_last_one_saved() {
    async fn pages(context: Context, _: Job) -> Result<String, Failure> {
        let found = context.checkpoint();
        let page: u32 = match &found {
            Some(bytes) => String::from_utf8_lossy(bytes).parse()?,
            None => 0,
        };
        context.save_checkpoint((page + 1).to_string()).await?;
        assert_eq!(context.checkpoint().unwrap(), (page + 1).to_string());
        if page < 3 { Err(Failure::retry("not done")) } else { Ok(format!("from page {page}")) }
    }
    let mut bench = Bench::new(|builder| builder.handler("pages", pages));
    let id = bench.submit("pages", 9, LONG).await;
    let record = bench.finished(&id).await.record;
    assert_eq!(record.result, Some(Payload::Json(Bytes::from_static(b"\"from page 3\""))));
    assert_eq!((record.attempts, record.checkpoint), (4, None));
    bench.stop().await;
}

#[tokio::test]
async fn a_save_ends_with_the_lease_and_a_large_one_before_it_is_sent() {
    let (told, mut hears) = mpsc::unbounded_channel();
    let mut bench = Bench::new(|builder| {
        builder.handler("stubborn", move |context: Context, _: Job| {
            let told = told.clone();
            async move {
                let large = context.save_checkpoint(vec![0; limits::CHECKPOINT_BYTES_MAX + 1]).await;
                assert!(matches!(large, Err(port::Error::Refused { code, .. }) if code == "too_large"));
                told.send(context.save_checkpoint("first").await.is_ok()).unwrap();
                // It does not listen, and learns of the cancel by the answer to what it saves.
                while context.save_checkpoint("again").await.is_ok() {}
                told.send(context.cause() == Some(Cause::Cancelled)).unwrap();
                Outcome::Done(None)
            }
        })
    });
    let id = bench.submit("stubborn", 0, LONG).await;
    assert_eq!(hears.recv().await, Some(true));
    bench.broker.cancel(&id).await.unwrap();
    assert_eq!(hears.recv().await, Some(true));
    let record = bench.finished(&id).await.record;
    assert_eq!(record.state_name(), StateName::Cancelled);
    assert!(record.checkpoint.is_some(), "what was saved before the cancel stays");
    bench.stop().await;
}

#[tokio::test]
async fn a_snoozed_task_comes_again_without_using_an_attempt() {
    let times = Arc::new(AtomicU32::new(0));
    let counted = times.clone();
    let mut bench = Bench::new(|builder| {
        builder.handler("early", move |context: Context, _: Job| {
            let time = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match time {
                    0 => Outcome::snooze(Duration::from_millis(5)),
                    1 => Err::<(), _>(Failure::snooze(Duration::from_millis(5))).into_outcome(),
                    _ => Outcome::ok(context.attempt()),
                }
            }
        })
    });
    let id = bench.submit("early", 0, LONG).await;
    let record = bench.finished(&id).await.record;
    assert_eq!((record.state_name(), record.attempts), (StateName::Completed, 1));
    assert_eq!(times.load(Ordering::SeqCst), 3);
    bench.stop().await;
}
