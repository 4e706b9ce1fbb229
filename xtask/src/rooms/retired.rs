//! Rule about retired words: terms of the field replaced them.

use super::{Rule, Tree, planted};

pub(super) const RULE: Rule = Rule {
    name: "retired-words",
    says: "a word that was replaced by the field's own does not come back (xtask/src/rooms/retired.rs lists them with their \
           successors); docs/glossary.md defines the words of our own that remain",
    check,
    planted: || planted("host/x/src/lib.rs", "/// The warden of a dispatcher.\nstruct Supervisor;"),
};

/// A retired word, in lower case, and its successor. A word is a part of a name, too: `keeps_house`, `NoticeBoard`.
const WORDS: &[(&str, &str)] = &[
    ("calm", "a cooldown"),
    ("crew", "a dispatcher, workers or threads"),
    ("crews", "dispatchers, workers or threads"),
    ("crowded", "a burst"),
    ("customs", "what a ring is compatible with"),
    ("debt", "outstanding"),
    ("debts", "outstanding"),
    ("desk", "an entry of a table"),
    ("desks", "entries of a table"),
    ("dishonest", "an invalid flag"),
    ("follower", "a participant"),
    ("followers", "participants"),
    ("forsaken", "abandoned"),
    ("freehold", "a deferred free"),
    ("glance", "a poll"),
    ("heir", "the next poller"),
    ("heirs", "the next pollers"),
    ("honest", "a valid flag"),
    ("house", "maintenance"),
    ("hush", "a backoff"),
    ("mishap", "a fault"),
    ("mishaps", "faults"),
    ("nap", "a sleep"),
    ("naps", "sleeps"),
    ("noticeboard", "a log of completions"),
    ("parcel", "a graph request"),
    ("parcels", "graph requests"),
    ("patience", "a timeout"),
    ("rally", "a grid channel"),
    ("roster", "a pool"),
    ("rosters", "pools"),
    ("seat", "a grid port"),
    ("seats", "grid ports"),
    ("tallies", "counters"),
    ("tally", "a counter"),
    ("verdict", "a result, or a classification"),
    ("verdicts", "results, or classifications"),
    ("warden", "a watchdog"),
];

/// Words that were terms of the dispatchers and their workers, with their successors. Elsewhere, and in prose, they are ordinary
/// words, as in the usual headers of TensorRT.
const TERMS: &[(&str, &str)] = &[
    ("aside", "deferred"),
    ("booked", "recorded"),
    ("figures", "counters, or a record"),
    ("holders", "a lease"),
    ("home", "the poller's block"),
    ("judge", "classify, or admit"),
    ("lead", "polling"),
    ("leader", "the poller"),
    ("look", "a poll, or a query"),
    ("looked", "polled"),
    ("looks", "polls"),
    ("mailed", "a mailbox graph"),
    ("outside", "external, as in ExternalExecutor"),
    ("owe", "outstanding"),
    ("owed", "outstanding"),
    ("owes", "outstanding"),
    ("owing", "outstanding"),
    ("played", "simulated, or a fake"),
    ("plugged", "a wire provider"),
    ("remark", "set_state"),
    ("settle", "complete"),
    ("settled", "completed"),
    ("settles", "completes"),
    ("staged", "a private copy"),
    ("tell", "publish, or report"),
    ("tells", "publishes, or reports"),
    ("told", "a cached call, published, or reported"),
    ("unsettled", "in flight"),
    ("unusual", "a fallback"),
    ("usual", "the fast path"),
    ("watched", "polled"),
    ("wave", "a burst load"),
    ("waves", "burst loads"),
];

/// Words that were terms of device code. On the host a stage is a part of a pipeline.
const DEVICE_TERMS: &[(&str, &str)] = &[("stage", "a staging buffer"), ("stages", "staging buffers")];

/// Names that are not used in the code of dispatchers; parts of names, as of `in_place`, are ordinary words.
const NAMES_OF_DISPATCHERS: &[(&str, &str)] = &[
    ("Place", "what it is: an entry, an index, a position"),
    ("place", "what it is: an entry, an index, a position"),
    ("places", "what they are: entries, indices, positions"),
    ("Shares", "EvenSplit"),
    ("give_back", "release"),
];

/// Where [`TERMS`] and [`NAMES_OF_DISPATCHERS`] are not used in code.
const OF_DISPATCHERS: &[&str] = &[
    "device/",
    "host/bridge/src/",
    "host/c/src/",
    "host/inference-service/src/",
    "host/launch/src/",
    "host/pipeline/src/",
    "host/ringcall/src/",
    "host/transport/src/",
];

/// Names of types, functions and constants that were retired, and that are ordinary words in prose.
const NAMES: &[(&str, &str)] = &[
    ("Board", "BlockState"),
    ("Driven", "Lease"),
    ("Hands", "Lease"),
    ("Mailed", "MailboxGraph"),
    ("Notice", "Completion"),
    ("FreeHold", "DeferFrees"),
    ("Launchable", "MailboxGraph"),
    ("Living", "WeakCache"),
    ("Near", "FastPath"),
    ("Nobody", "NoWorker, or who it is"),
    ("NoticeBoard", "CompletionLog"),
    ("Outside", "ExternalExecutor"),
    ("Signs", "CompletionProbe"),
    ("StagedSlot", "SlotCopy"),
    ("Told", "CachedCall"),
    ("Usual", "FastPath"),
    ("Verdict", "what it is: Completion, Admission"),
    ("leave_alone", "defer"),
    ("let_answer", "back_off"),
    ("let_pass", "back_off"),
];

/// Words that no constant has in its name.
const CONSTANTS: &[(&str, &str)] = &[
    ("LOOK", "POLL_INTERVAL, or the number of turns between two checks"),
    ("LOOKS", "polls"),
    ("MOMENT", "a timeout"),
    ("REST", "a sleep"),
];

/// Where a retired word stays: a file, the word, and the name that users see.
const KEPT: &[(&str, &str, &str)] = &[
    ("host/decoder-service/src/study/state.rs", "tally", "a key of the file of a sweep"),
    ("fuzz/fuzz_targets/study_state.rs", "tally", "the same key"),
];

/// The files that define the words.
const EXEMPT: &[&str] = &["docs/glossary.md", "xtask/src/rooms/retired.rs"];

fn check(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| !EXEMPT.contains(&file.path.as_str())) {
        let is_rust = file.path.ends_with(".rs");
        let is_dispatcher = is_rust && OF_DISPATCHERS.iter().any(|folder| file.path.starts_with(folder));
        let is_device = is_rust && file.path.starts_with("device/");
        for (index, line) in file.text.lines().enumerate() {
            let names = |line| str::split(line, |c: char| !c.is_alphanumeric() && c != '_');
            let retired = |words: &'static [(&str, &str)], name| {
                parts(name).find_map(|part| words.iter().find(|(old, _)| *old == part.to_lowercase()))
            };
            let mut report = |name: &str, retired: Option<&(&str, &str)>| {
                if let Some((old, successor)) = retired
                    && !KEPT.iter().any(|(path, word, _)| *path == file.path && word == old)
                {
                    found.push(format!("{}:{}: `{name}`: say {successor}", file.path, index + 1));
                }
            };
            for name in names(line) {
                report(name, retired(WORDS, name));
            }
            let code = if is_rust { code(line) } else { String::new() };
            for name in names(&code) {
                report(name, NAMES.iter().find(|(old, _)| *old == name));
                if is_dispatcher {
                    report(name, retired(TERMS, name));
                    report(name, NAMES_OF_DISPATCHERS.iter().find(|(old, _)| *old == name));
                }
                if is_device {
                    report(name, retired(DEVICE_TERMS, name));
                }
                if !name.chars().any(char::is_lowercase) {
                    report(
                        name,
                        name.split('_').find_map(|part| CONSTANTS.iter().find(|(old, _)| *old == part)),
                    );
                }
            }
        }
    }
    found
}

/// A line of Rust less its comment and what stands between quotes.
fn code(line: &str) -> String {
    let line = line.split("//").next().unwrap_or_default();
    line.split('"').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The words of a name: `keeps_house` and `keepsHouse` have two.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').flat_map(|word| {
        let mut cuts = vec![0];
        let mut before = 'A';
        for (at, c) in word.char_indices() {
            if c.is_uppercase() && before.is_lowercase() {
                cuts.push(at);
            }
            before = c;
        }
        cuts.push(word.len());
        cuts.windows(2).filter_map(|cut| word.get(cut[0]..cut[1])).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(path, text)).len()
    }

    #[test]
    fn a_word_is_found_in_names_and_in_prose() {
        for text in [
            "fn keeps_house() {}",
            "struct HouseWarp;",
            "const NAPS: u32 = 1;",
            "// A nap.",
            "/// Crew: none.",
        ] {
            assert_eq!(found("host/x/src/lib.rs", text), 1, "{text}");
        }
        for text in ["fn snap() {}", "/// A household's warp.", "static A: &str = \"disheartening\";"] {
            assert_eq!(found("host/x/src/lib.rs", text), 0, "{text}");
        }
        assert_eq!(found("docs/a.md", "The roster."), 1);
        assert_eq!(found("docs/glossary.md", "roster: a pool."), 0);
    }

    #[test]
    fn a_name_is_retired_in_code_alone() {
        assert_eq!(found("host/x/src/lib.rs", "struct Board;"), 1);
        assert_eq!(found("host/x/src/lib.rs", "//! Outside of a ring."), 0);
        assert_eq!(found("docs/a.md", "Outside of a ring."), 0);
        assert_eq!(found("host/x/src/lib.rs", "fn f(board: &KeyBoard) {}"), 0);
    }

    #[test]
    fn a_word_is_retired_in_the_names_of_constants_alone() {
        assert_eq!(found("host/x/src/lib.rs", "const TURNS_PER_LOOK: u32 = 1;"), 1);
        assert_eq!(found("host/x/src/lib.rs", "fn look(rest: u32) {}"), 0);
        assert_eq!(found("host/x/src/lib.rs", "const LOOKUP_FOREST: u32 = 1; // LOOK"), 0);
    }

    #[test]
    fn a_term_is_retired_in_the_code_of_dispatchers_alone() {
        assert_eq!(found("device/x/src/lib.rs", "fn owed_answers() {}"), 1);
        assert_eq!(found("device/x/src/lib.rs", "// An answer is owed."), 0);
        assert_eq!(found("device/x/src/lib.rs", "f(\"an answer is owed\");"), 0);
        assert_eq!(found("host/matching/src/lib.rs", "fn owed_answers() {}"), 0);
        assert_eq!(found("host/transport/src/lib.rs", "fn is_settled(told: bool) {}"), 2);
        assert_eq!(found("host/matching/src/lib.rs", "fn is_settled(told: bool) {}"), 0);
        assert_eq!(found("host/transport/src/lib.rs", "let place = slot.give_back(in_place);"), 2);
        assert_eq!(found("host/matching/src/lib.rs", "let place = slot.give_back(in_place);"), 0);
    }

    #[test]
    fn a_stage_is_retired_in_the_code_of_devices_alone() {
        assert_eq!(found("device/x/src/lib.rs", "let stage = input;"), 1);
        assert_eq!(found("device/x/src/lib.rs", "let staging = input; // A stage."), 0);
        assert_eq!(found("host/pipeline/src/lib.rs", "let stage = input;"), 0);
    }

    #[test]
    fn names_are_cut_into_words() {
        let cut = |name| parts(name).collect::<Vec<_>>();
        assert_eq!(cut("keeps_house"), ["keeps", "house"]);
        assert_eq!(cut("NoticeBoard2"), ["Notice", "Board2"]);
        assert_eq!(cut("LOOK"), ["LOOK"]);
    }
}
