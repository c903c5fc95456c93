//! Asking both stores.

use std::fmt::Debug;
use std::sync::Arc;

use windlass_core::Task;
use windlass_store::{List, Store};

/// Calls both stores, compares the answers and returns that of the first.
macro_rules! both {
    ($pair:expr, $verb:ident($($argument:expr),*)) => {{
        let a = $pair.a.$verb($($argument),*).await.expect(stringify!($verb));
        let b = $pair.b.$verb($($argument),*).await.expect(stringify!($verb));
        $crate::model::both::same(stringify!($verb), &a, &b);
        a
    }};
}

pub(super) use both;

pub(super) fn same<T: Debug + PartialEq>(verb: &str, a: &T, b: &T) {
    assert!(a == b, "the stores differ in {verb}:\n  {a:?}\nand\n  {b:?}");
}

/// Every task that matches, page by page.
pub(super) async fn walk(store: &Arc<dyn Store>, mut list: List) -> Vec<Task> {
    let mut tasks = Vec::new();
    loop {
        let page = store.list(list.clone()).await.expect("list");
        tasks.extend(page.tasks);
        match page.next {
            Some(next) => {
                let onward = list.before.replace(next).is_none_or(|before| next < before);
                assert!(onward, "a walk that stands still at {next}: {list:?}");
            }
            None => return tasks,
        }
    }
}
