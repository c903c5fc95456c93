//! The watch by itself: what it takes, keeps and lets go of.

use super::*;

#[test]
fn leases_that_were_dropped_are_read_again_by_who_leads_again() {
    let held = Held { beat: 5, window_ms: 10, worker: Name::new("w").unwrap() };
    let at = |mono| Now { wall: 0, mono, ahead: 0 };
    let last = Some((5, "call".to_owned()));
    let mut watch = Watch { beat: 5, last: last.clone(), ..Watch::default() };
    watch.hold(1, &held, at(0));
    watch.drop_ended(at(5));
    assert_eq!((watch.by_seq.len(), watch.beat, watch.last.clone()), (1, 5, last), "it goes on");
    watch.drop_ended(at(20));
    assert_eq!((watch.by_seq.len(), watch.beat, watch.last), (0, 0, None));
}

fn asked(watch: &Watch) -> Asked {
    Asked { begun: watch.begun, after: watch.beat, call: "call".to_owned() }
}

fn observed(history: &str, last: u64, leases: &[(u64, u64)]) -> Observed {
    let held = |beat| Held { beat, window_ms: 10, worker: Name::new("w").unwrap() };
    let leases = leases.iter().map(|(seq, beat)| (*seq..=*seq, held(*beat))).collect();
    Observed { last, history: history.to_owned(), leases, full: false }
}

#[test]
fn what_was_asked_for_before_a_new_beginning_is_no_answer() {
    let at = |mono| Now { wall: 0, mono, ahead: 0 };
    let mut watch = Watch { history: "h".to_owned(), ..Watch::default() };
    let (early, seen) = (asked(&watch), observed("h", 7, &[(1, 7)]));
    watch.clear();
    watch.history = "h".to_owned();
    assert!(watch.learn(&early, &seen, at(0)), "it is asked again");
    assert_eq!((watch.by_seq.len(), watch.beat), (0, 0), "whoever leads now reads all of them");
    let now = asked(&watch);
    assert!(!watch.learn(&now, &seen, at(0)));
    assert_eq!((watch.by_seq.len(), watch.beat), (1, 7));
    let early = asked(&watch);
    watch.drop_ended(at(20));
    assert!(watch.learn(&early, &observed("h", 8, &[(2, 8)]), at(20)));
    assert_eq!(watch.beat, 0);
}

#[test]
fn beats_that_are_given_again_are_other_leases() {
    let at = |mono| Now { wall: 0, mono, ahead: 0 };
    let mut watch = Watch { history: "h".to_owned(), ..Watch::default() };
    let first = asked(&watch);
    watch.learn(&first, &observed("h", 7, &[(1, 7)]), at(0));
    let behind = asked(&watch);
    assert!(watch.learn(&behind, &observed("another", 7, &[]), at(5)), "all of them are read again");
    let anew = asked(&watch);
    assert_eq!(anew.after, 0);
    assert!(!watch.learn(&anew, &observed("another", 7, &[(1, 7), (2, 6)]), at(5)));
    assert_eq!(watch.by_deadline.iter().copied().collect::<Vec<_>>(), [(15, 1), (15, 2)]);
}
