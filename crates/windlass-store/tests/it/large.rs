//! The numbers of the promises, on the embedded store with its usual sizes.

use windlass_store::conformance::{dependents, shares};

use crate::embedded::usual;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ninety_nine_small_tenants_beside_one_with_a_hundred_thousand_tasks() {
    shares::among_a_large_one(&mut usual().await, 100_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_out_and_fan_in_of_ten_thousand() {
    dependents::fan_out_and_in(&mut usual().await, 10_000).await;
}
