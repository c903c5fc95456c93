use super::*;

#[tokio::test]
async fn tasks_pass_the_layers_in_order() {
    let (seen, mut order) = mpsc::unbounded_channel();
    let note = |name: &'static str| {
        let seen = seen.clone();
        around(move |context: Context, job: Job, next: Next| {
            let seen = seen.clone();
            async move {
                seen.send((name, "in")).unwrap();
                let outcome = next.run(context, job).await;
                seen.send((name, "out")).unwrap();
                outcome
            }
        })
    };
    let refuse = around(|context: Context, job: Job, next: Next| async move {
        if job.kind.as_str() == "forbidden" {
            Outcome::fatal("not here")
        } else {
            next.run(context, job).await
        }
    });
    let mut bench = Bench::new(|builder| {
        builder
            .layer(note("outer"))
            .layer(note("inner"))
            .layer(refuse)
            .handler("echo", crate::builtin::echo)
            .handler("forbidden", crate::builtin::echo)
    });
    assert_eq!(bench.end_of("echo", 0, LONG).await.0, StateName::Completed);
    let mut path = Vec::new();
    while let Ok(step) = order.try_recv() {
        path.push(step);
    }
    assert_eq!(path, [("outer", "in"), ("inner", "in"), ("inner", "out"), ("outer", "out")]);
    assert_eq!(bench.end_of("forbidden", 3, LONG).await, (StateName::DeadLetter, 1, "not here".into()));
    bench.stop().await;
}
