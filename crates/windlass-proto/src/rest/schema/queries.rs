//! Schemas of query parameters and headers. Where an empty parameter counts as not given, the schema allows it.

use utoipa::openapi::schema::{AnyOfBuilder, Object, ObjectBuilder, Type};
use windlass_core::StateName;
use windlass_core::flow::Scope;
use windlass_core::limits as l;

use super::{REST, date_time, ranged_text, schemas, text, words};

schemas! {
    PageLimit "At least 1. A page has at most 1,000 items, whatever is asked for." => from_one();
    SlotCount "At least 1. A preview has at most 100 slots, whatever is asked for." => from_one();
    Cursor "`next_cursor` of the page before; empty for the first page." => pattern("[A-Za-z0-9_-]*".to_owned());
    NameQuery "A name; empty counts as not given." => pattern(format!("({})?", one_name()));
    NamesQuery "Names, with commas, up to 100." => pattern(names());
    IdsQuery "Ids of tasks, with commas, up to 1,000." => pattern(names());
    StatesQuery "States of tasks, with commas; also `queued`, `active`, `in_progress`, `retry`, `done`, `archived`, `dead`, and `failed` \
        for `retrying,dead_letter`." => pattern(words_or_none(&states()));
    TimeQuery "A time as in RFC 3339; empty counts as not given."
        => AnyOfBuilder::new().item(date_time()).item(ObjectBuilder::from(text()).max_length(Some(0)));
    ScopeQuery "What a limit is attached to; empty counts as not given."
        => words(Scope::ALL.map(Scope::as_str).into_iter().chain([""]));
    SpanQuery "A span like `30s`, `500ms`, `2m` or `1h`; a bare number is in seconds." => pattern(SPAN.to_owned());
    StepQuery "A span like `10s` or `5m`; empty counts as not given." => pattern(format!("({SPAN})?"));
    FilterQuery "A filter, as `state:dead_letter type:email.* error:timeout since:2h`; see `docs/operations.md`."
        => ranged_text(0, l::FILTER_BYTES_MAX);
    IdempotencyKey "Visible ASCII characters." => pattern("[!-~]+".to_owned()).min_length(Some(1)).max_length(Some(2 * l::NAME_BYTES_MAX));
}

const SPAN: &str = "[0-9]{1,19}(ms|s|m|h)?";

fn from_one() -> ObjectBuilder {
    ObjectBuilder::from(Object::with_type(Type::Integer)).minimum(Some(1))
}

fn pattern(inner: String) -> ObjectBuilder {
    ObjectBuilder::from(text()).pattern(Some(format!("^{inner}$")))
}

/// A name with its length, for patterns that hold more than one.
fn one_name() -> String {
    let most = l::NAME_BYTES_MAX;
    let (plain, dot, dots) = (most - 1, most - 2, most - 2);
    format!(r"([A-Za-z0-9_:-]{REST}{{0,{plain}}}|\.[A-Za-z0-9_:-]{REST}{{0,{dot}}}|\.\.{REST}{{1,{dots}}})")
}

/// The number of names is left out: common engines refuse a pattern that counts so far.
fn names() -> String {
    let one = one_name();
    format!("{one}(,{one})*")
}

/// Words with commas, of which any may be missing.
pub fn words_or_none(words: &[&str]) -> String {
    let one = format!("({})?", words.join("|"));
    format!("{one}(,{one})*")
}

fn states() -> Vec<&'static str> {
    let aliases = ["queued", "active", "in_progress", "retry", "done", "archived", "dead", "failed"];
    let words = StateName::ALL.map(StateName::as_str).into_iter().chain(aliases);
    words.filter(|word| StateName::parse_filter(word).is_some()).collect()
}
