//! The suite that every store passes: `windlass_store::conformance_suite!(maker)` makes one named test of each case.
//!
//! `maker` is an async function that returns a [`Harness`] around a new, empty store. Cases see the store through the
//! trait alone and decide every change with `windlass_core`, as the broker does. After each case the whole store is
//! scanned and compared with its counters ([`Harness::check`]), whatever the case was about. Where tasks of several queues
//! are parts of one commit, the names of the queues are alike up to a colon: not every store can do more.

pub mod ageing;
pub mod changes;
pub mod checkpoints;
pub mod claims;
pub mod dependents;
pub mod flow;
pub mod inserts;
pub mod leases;
pub mod lists;
pub mod migrations;
pub mod names;
pub mod observed;
pub mod operations;
pub mod places;
pub mod schedules;
pub mod shares;
mod steps;
pub mod timers;
pub mod totals;
pub mod unique;
pub mod waits;
pub mod workflows;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::clock::ManualClock;
use crate::store::{Feature, Store};

/// Opens the store of a persistent harness again, with all that was in it.
pub type Open = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send>> + Send + Sync>;

pub struct Harness {
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    open: Option<Open>,
}

impl Harness {
    /// For a store that forgets everything when it is closed.
    pub fn volatile(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Harness {
        Harness { store, clock, open: None }
    }

    /// For a store that `open` opens, now and again later.
    pub async fn persistent(clock: Arc<ManualClock>, open: Open) -> Harness {
        Harness { store: open().await, clock, open: Some(open) }
    }

    /// The feature that the cases of a module are about, if this store does not have it: then they are passed over.
    pub fn lacks(&self, module: &str) -> Option<Feature> {
        let feature = match module {
            "unique" => Feature::UniqueKeys,
            "schedules" => Feature::Schedules,
            "operations" => Feature::Operations,
            "flow" | "shares" | "ageing" => Feature::Flow,
            "dependents" => Feature::Dependencies,
            "workflows" => Feature::Workflows,
            "migrations" => Feature::Restore,
            _ => return None,
        };
        (!self.store.capabilities().has(feature)).then_some(feature)
    }

    /// Closes the store and opens it again; `false` if this store cannot do that.
    pub async fn reopen(&mut self) -> bool {
        let Some(open) = &self.open else { return false };
        self.store.close().await.expect("the store closes");
        self.store = open().await;
        true
    }
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("store", &self.store)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

#[macro_export]
macro_rules! conformance_suite {
    ($make:path) => {
        $crate::conformance_suite! { @cases $make;
            inserts {
                new_tasks_are_numbered_in_order
                what_was_added_can_be_read
                same_content_is_the_same_task
                other_content_clashes
                equal_ids_inside_a_batch
                a_plain_batch_adds_what_it_can
                an_atomic_batch_adds_all_or_nothing
                the_depth_limit_counts_what_waits
                a_taken_id_is_told_before_a_full_queue
                racing_submits_of_one_id_make_one_task
            }
            claims {
                highest_priority_first_and_oldest_first_within
                a_thousand_mixed_priorities_drain_in_order
                a_claim_is_a_running_lease
                tokens_grow_and_differ
                types_are_filtered
                strict_mode_serves_the_first_listed_queue
                weighted_mode_shares_by_weight
                a_paused_queue_gives_out_nothing
                only_pending_tasks_are_given_out
                an_expired_task_is_cancelled_instead_of_given_out
                each_task_goes_to_one_of_many_claimers
                places_in_line
            }
            waits {
                an_insert_serves_who_waits
                a_promotion_serves_who_waits
                a_release_serves_who_waits
                a_lost_lease_serves_who_waits
                a_requeue_serves_who_waits
                a_resumed_queue_serves_who_waits
                first_come_first_served
                only_what_is_wanted_wakes
                a_wait_ends_empty
                who_goes_away_gets_nothing
                many_waiters_share_a_batch
            }
            changes {
                a_task_completes_once
                failures_are_retried_until_the_dead_letters
                a_released_task_keeps_its_place_and_attempts
                a_delayed_release_waits_for_its_time
                a_task_is_cancelled_in_every_live_state
                a_requeued_task_goes_to_the_end_of_the_line
                a_removed_task_is_forgotten_and_its_id_is_free
                a_stale_revision_is_a_conflict
                one_of_many_racing_changes_is_committed
                a_batch_answers_in_order
                a_lease_is_not_committed
            }
            observed {
                every_change_is_told_in_order
            }
            checkpoints {
                a_checkpoint_is_kept_until_the_task_completes
                an_empty_checkpoint_takes_the_last_one_away
                only_the_holder_saves
                saving_leaves_the_lease_as_it_was
                checkpoints_outlive_a_reopen
            }
            leases {
                a_lease_runs_out
                a_pause_gives_every_lease_one_fresh_window
                an_extension_moves_the_deadline
                an_extension_after_the_end_was_noticed_is_refused
                a_report_may_still_win_against_the_reaper
                dead_workers_lose_their_leases_at_once
                a_lost_lease_can_do_nothing
                too_many_crashes_are_a_dead_letter
                a_jump_of_the_wall_clock_ends_no_lease
                a_cancelled_holder_is_told
                expired_keeps_to_its_limit
                running_leases_get_a_fresh_window_after_a_reopen
            }
            timers {
                due_tasks_come_earliest_first
                prunable_tasks_come_earliest_first
                nearer_deadlines_are_signalled
                timers_outlive_a_reopen
                a_clock_set_back_delays_only_what_names_a_time
                a_clock_set_forward_hurries_only_what_names_a_time
                what_counts_expires_by_the_wall_clock
                what_counts_outlives_a_reopen
            }
            lists {
                pages_go_from_newest_to_oldest
                filters_select
                a_walk_misses_nothing_while_tasks_are_added
                a_page_has_a_ceiling
            }
            places {
                another_priority_is_another_place_in_line
                a_moved_task_waits_in_its_new_queue
                timers_move_along
                a_move_serves_who_waits
            }
            operations {
                an_operation_walks_what_was_there
                a_stale_step_changes_nothing
                a_task_that_changed_is_kept_for_another_look
                one_of_many_racing_steps_is_taken
                an_operation_that_ended_goes_no_further
                operations_are_listed_newest_first
                only_some_operations_run_at_once
                operations_outlive_a_reopen
                a_retry_that_a_step_refuses_takes_no_key
            }
            schedules {
                a_schedule_is_written_under_its_revision
                a_fire_adds_its_tasks_and_advances
                a_slot_is_stored_once
                one_of_many_racing_fires_wins
                a_fire_serves_who_waits
                due_schedules_come_earliest_first
                a_nearer_slot_is_signalled
                schedules_are_listed_in_order_of_id
                schedules_outlive_a_reopen
                slots_come_up_on_the_clock_of_their_pattern
            }
            unique {
                a_held_key_answers_by_the_rule
                a_taken_id_is_told_before_a_held_key
                every_end_frees_the_key
                a_live_task_keeps_its_key_through_every_state
                a_running_holder_is_cancelled_and_told
                replacing_again_and_again_moves_the_start
                a_key_is_free_after_its_time
                an_expired_holder_gives_way
                a_retry_needs_its_key_back
                a_retry_after_its_time_takes_no_key
                equal_keys_inside_a_batch
                an_atomic_batch_minds_the_keys
                a_full_queue_keeps_its_holder
                racing_submits_of_one_key_make_one_task
                keys_outlive_a_reopen
                the_time_of_a_key_counts_whatever_the_wall_clock_shows
            }
            flow {
                keys_take_turns
                a_cap_holds_for_a_queue_a_type_and_a_key
                a_limit_counts_what_runs_already
                what_is_paused_does_not_start
                a_freed_place_serves_who_waits
                a_changed_limit_serves_who_waits
                a_rate_holds_in_every_window
                a_token_serves_who_waits
                a_nearer_token_is_signalled
                a_token_that_is_long_there_serves_who_waits
                a_limit_reaches_over_the_queues_of_one_claim
                a_full_depth_refuses_by_name
                limits_are_set_listed_and_removed
                what_holds_a_task_is_told
                a_blocked_key_blocks_nobody_else
                a_retried_task_counts_again
                flow_outlives_a_reopen
            }
            shares {
                weights_become_shares_of_a_queue
                small_tenants_finish_as_if_alone
            }
            ageing {
                who_has_waited_long_enough_goes_first
                nobody_starves_in_a_queue_that_ages
                ageing_is_set_and_removed_with_tasks_in_line
                long_lines_of_a_queue_that_ages
            }
            names {
                a_queue_without_tasks_is_released_after_a_while
                what_is_paused_or_limited_is_not_released
                a_rate_outlives_the_names_that_used_it
                who_waits_for_a_released_name_is_served
                names_come_and_go_beside_others_that_stay
                a_name_whose_last_task_moved_away_is_released
            }
            dependents {
                a_task_waits_for_its_dependencies
                what_cannot_be_waited_for_is_told
                a_batch_may_depend_on_what_stands_before
                a_cancelled_dependency_cancels_all_behind_it
                an_end_counts_once
                a_decision_on_what_changed_is_a_conflict
                a_retry_stops_a_cascade
                a_dead_letter_is_waited_for
                what_others_wait_for_is_not_forgotten_before_they_know
                a_retried_task_waits_again
                a_dependency_that_is_named_twice_counts_once
                a_task_cannot_wait_for_what_gives_way_to_it
                a_dependent_that_is_gone_is_passed_over
                a_wide_graph_is_told_in_small_steps
                an_end_is_signalled
                who_waits_outlives_a_reopen
            }
            workflows {
                a_graph_is_added_whole
                a_graph_that_cannot_be_added_leaves_no_trace
                the_tasks_of_a_graph_are_new
                progress_follows_the_tasks
                a_workflow_is_forgotten_with_its_last_task
                workflows_and_their_tasks_are_listed
            }
            migrations {
                what_another_store_had_goes_on_here
                a_repeated_copy_changes_nothing
                released_tasks_are_ready_at_once
                what_is_in_the_way_is_a_clash
                what_was_put_in_outlives_a_reopen
                numbers_of_tasks_that_are_gone_are_not_given_again
            }
            totals {
                queues_are_listed_by_name
                the_ledger_counts_every_change
                counters_agree_after_a_random_mix
                everything_outlives_a_reopen
                a_closed_store_answers_so
            }
        }
    };
    (@cases $make:path; $($module:ident { $($case:ident)* })*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let mut harness = $make().await;
                if harness.lacks(stringify!($module)).is_some() {
                    return;
                }
                $crate::conformance::$module::$case(&mut harness).await;
                harness.check().await;
            }
        )*)*
    };
}
