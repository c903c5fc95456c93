//! Clients of several brokers that submit one unique key at once.

use std::sync::Barrier;

use super::*;

const CLIENTS: usize = 64;
const ROUNDS: usize = 4;

#[test]
fn sixty_four_clients_of_one_broker_replace_each_other() {
    let redis = Redis::start();
    each_replaces_another(&[redis.broker()]);
}

#[test]
fn sixty_four_clients_of_three_brokers_replace_each_other() {
    let redis = Redis::start();
    each_replaces_another(&[redis.broker(), redis.broker(), redis.broker()]);
}

#[test]
fn they_do_so_in_a_cluster() {
    let redis = Redis::start_cluster();
    each_replaces_another(&[redis.broker(), redis.broker(), redis.broker()]);
}

/// Every submit is answered with a new task, and all of them but one are replaced.
fn each_replaces_another(brokers: &[BrokerProcess]) {
    let start = Barrier::new(CLIENTS);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (mut client, start) = (brokers[client % brokers.len()].client(), &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..ROUNDS {
                    let body = r#"{"type":"t","unique_key":"k","on_conflict":"replace"}"#;
                    client.post(TASKS, body).expect(201);
                }
            });
        }
    });
    let mut client = brokers[0].client();
    let mut list = |state: &str| {
        let page = client.get(&format!("{TASKS}?state={state}&limit=1000")).expect(200);
        page["items"].as_array().unwrap().clone()
    };
    assert_eq!(list("pending").len(), 1);
    let cancelled = list("cancelled");
    assert_eq!(cancelled.len(), CLIENTS * ROUNDS - 1);
    assert!(cancelled.iter().all(|task| task["cancel_reason"] == "replaced"));
}
