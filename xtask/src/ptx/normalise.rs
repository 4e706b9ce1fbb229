//! PTX compared without the names that a rename of Rust code changes: mangled symbols, labels and register numbers.
//!
//! Each entry or exported symbol is compared together with the functions and data that it refers to, in the order of the
//! first reference. In that order mangled symbols get numbers; in each function, registers and labels do. So functions may
//! move within a file, and nothing else may change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

/// The first difference between two PTX files: the entry, and the instruction in both files. `None` if they differ in
/// names, labels, register numbers and the order of functions at most.
pub(super) fn difference(before: &str, after: &str) -> Option<String> {
    let (before, after) = (Module::parse(before), Module::parse(after));
    if let Some(text) = first_difference(&before.header, &after.header) {
        return Some(format!("the header differs:\n{text}"));
    }
    let mut reached = [BTreeSet::new(), BTreeSet::new()];
    for name in before.exported().union(&after.exported()) {
        let kind = before.kind(name).or_else(|| after.kind(name)).unwrap_or("symbol");
        for (module, file) in [(&before, "before"), (&after, "after")] {
            if !module.items.contains_key(name) {
                return Some(format!("{kind} `{name}` is not in the file {file}\n"));
            }
        }
        let [one, other] = [(&before, 0), (&after, 1)].map(|(module, at)| {
            let part = module.part(&[name]);
            reached[at].extend(part.reached);
            part.lines
        });
        if let Some(text) = first_difference(&one, &other) {
            return Some(format!("{kind} `{name}` differs:\n{text}"));
        }
    }
    let [one, other] = [(&before, 0), (&after, 1)].map(|(module, at)| {
        let rest: Vec<_> = module.order.iter().filter(|name| !reached[at].contains(*name)).copied().collect();
        module.part(&rest).lines
    });
    first_difference(&one, &other).map(|text| format!("what no entry refers to differs:\n{text}"))
}

/// A line that is compared, and where it is from.
struct Line<'a> {
    normal: String,
    number: usize,
    text: &'a str,
}

/// A function or a variable: its lines, with their numbers.
struct Item<'a> {
    lines: Vec<(usize, &'a str)>,
}

/// What was compared for an entry, and the symbols that it refers to.
struct Part<'a> {
    lines: Vec<Line<'a>>,
    reached: Vec<&'a str>,
}

/// A PTX file by its symbols.
struct Module<'a> {
    header: Vec<Line<'a>>,
    items: HashMap<&'a str, Item<'a>>,
    /// The symbols in the order of their definitions.
    order: Vec<&'a str>,
}

impl<'a> Module<'a> {
    fn parse(text: &'a str) -> Self {
        let mut module = Self { header: Vec::new(), items: HashMap::new(), order: Vec::new() };
        let mut lines = Vec::new();
        let mut depth = 0_i32;
        for (number, text) in (1..).zip(text.lines()) {
            let code = code(text);
            if code.is_empty() {
                continue;
            }
            if lines.is_empty() && HEADER.iter().any(|word| code.starts_with(word)) {
                module.header.push(Line { normal: code.to_owned(), number, text });
                continue;
            }
            lines.push((number, code));
            for sign in code.chars() {
                depth += match sign {
                    '{' | '(' => 1,
                    '}' | ')' => -1,
                    _ => 0,
                };
            }
            if depth == 0 && code.ends_with([';', '}']) {
                module.add(Item { lines: std::mem::take(&mut lines) });
            }
        }
        if !lines.is_empty() {
            module.add(Item { lines }); // a file that ends within a function: compared as it is
        }
        module
    }

    fn add(&mut self, item: Item<'a>) {
        let Some(name) = name_of(&item) else { return };
        let is_declaration = |item: &Item<'_>| item.lines.last().is_some_and(|(_, code)| code.ends_with(';'));
        match self.items.get(name) {
            Some(_) if is_declaration(&item) => return, // repeats what is there
            Some(_) => self.order.retain(|one| *one != name), // the definition counts, where it is
            None => (),
        }
        self.order.push(name);
        self.items.insert(name, item);
    }

    /// The symbols whose names are their own: entries, exported functions, variables that are linked.
    fn exported(&self) -> BTreeSet<&'a str> {
        self.order.iter().filter(|name| !is_mangled(name)).copied().collect()
    }

    fn kind(&self, name: &str) -> Option<&'static str> {
        let (_, first) = self.items.get(name)?.lines.first()?;
        Some(match () {
            () if first.contains(".entry") => "entry",
            () if first.contains(".func") => "function",
            () => "variable",
        })
    }

    /// These symbols, and the symbols they refer to, normalised.
    fn part(&self, names: &[&'a str]) -> Part<'a> {
        let mut part = Part { lines: Vec::new(), reached: names.to_vec() };
        let mut numbers: BTreeMap<&str, usize> =
            names.iter().enumerate().map(|(number, name)| (*name, number)).collect();
        let mut next = 0;
        while let Some(item) = part.reached.get(next).and_then(|name| self.items.get(name)) {
            next += 1;
            let registers = registers(item);
            let mut local: HashMap<String, usize> = HashMap::new();
            for &(number, code) in &item.lines {
                let mut normal = String::new();
                for token in tokens(code) {
                    let (symbol, suffix) = parameter(token);
                    if is_mangled(symbol) && self.items.contains_key(symbol) {
                        let count = numbers.len();
                        let at = *numbers.entry(symbol).or_insert(count);
                        if at == count {
                            part.reached.push(symbol);
                        }
                        let _ = write!(normal, "symbol#{at}{suffix}");
                    } else if let Some(kind) = local_name(token, &registers) {
                        let count = local.len();
                        let at = *local.entry(token.to_owned()).or_insert(count);
                        let _ = write!(normal, "{kind}#{at}");
                    } else {
                        normal += token;
                    }
                }
                part.lines.push(Line { normal, number, text: code });
            }
        }
        part
    }
}

/// Directives of a whole file.
const HEADER: [&str; 3] = [".version", ".target", ".address_size"];
/// What names of labels, call prototypes and stack frames begin with; a number follows.
const LABELS: [&str; 3] = ["$L__", "prototype_", "__local_depot"];

/// A line without its comment and indentation.
fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code).trim()
}

fn is_mangled(name: &str) -> bool {
    ["_RN", "_RIN", "_ZN"].iter().any(|mark| name.contains(mark)) || name.starts_with("anon_$_")
}

/// A parameter of a function: the function's name, and the rest. Any other token: all of it, and nothing.
fn parameter(token: &str) -> (&str, &str) {
    let at = token.rfind("_param_").filter(|at| {
        let number = &token[at + "_param_".len()..];
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    token.split_at(at.unwrap_or(token.len()))
}

/// The kind of a name that is a register's or a label's and ends with a number.
fn local_name<'t>(token: &'t str, registers: &BTreeSet<&str>) -> Option<&'t str> {
    let stem = token.trim_end_matches(|sign: char| sign.is_ascii_digit());
    if stem.len() == token.len() {
        return None;
    }
    if registers.contains(stem) {
        return Some(stem);
    }
    LABELS.into_iter().find(|label| token.starts_with(label))
}

/// The kinds of registers that a function declares: `%rd` of `.reg .b64 %rd<308>;`.
fn registers<'a>(item: &Item<'a>) -> BTreeSet<&'a str> {
    let declared = item.lines.iter().filter_map(|(_, code)| code.strip_prefix(".reg"));
    declared.filter_map(|code| code.split_once('<')?.0.split_whitespace().last()).collect()
}

/// The symbol that an item defines or declares.
fn name_of<'a>(item: &Item<'a>) -> Option<&'a str> {
    let mut depth = 0;
    for (_, code) in &item.lines {
        for token in tokens(code) {
            match token {
                "(" => depth += 1, // the result of a function comes before its name
                ")" => depth -= 1,
                _ if depth == 0
                    && token.starts_with(|sign: char| {
                        sign.is_ascii_alphabetic() || sign == '_' || sign == '$'
                    }) =>
                {
                    return Some(token);
                }
                _ => (),
            }
        }
    }
    None
}

/// Names, numbers and directives, each whole; every other sign by itself. White space of any length is one space.
fn tokens(code: &str) -> impl Iterator<Item = &str> {
    let word = |sign: char| sign.is_ascii_alphanumeric() || "_$%.".contains(sign);
    let mut rest = code;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = |is: &dyn Fn(char) -> bool| rest.find(|sign| !is(sign)).unwrap_or(rest.len());
        let (len, token) = if word(first) {
            let len = end(&word);
            (len, &rest[..len])
        } else if first.is_whitespace() {
            (end(&char::is_whitespace), " ")
        } else {
            let len = first.len_utf8();
            (len, &rest[..len])
        };
        rest = &rest[len..];
        Some(token)
    })
}

fn first_difference(before: &[Line<'_>], after: &[Line<'_>]) -> Option<String> {
    let shown = |file: &str, line: Option<&Line<'_>>| match line {
        Some(Line { number, text, .. }) => format!("  {file}, line {number}: {text}\n"),
        None => format!("  {file}: the end\n"),
    };
    let at = (0..before.len().max(after.len())).find(|&at| {
        let normal = |lines: &[Line<'_>]| lines.get(at).map(|line| line.normal.clone());
        normal(before) != normal(after)
    })?;
    Some(shown("before", before.get(at)) + &shown("after", after.get(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
// kernels for sm_90, by rustc 1.96.0 (x)
.version 8.6
.target sm_90
.address_size 64

.extern .shared .align 128 .b8 ringcall_shared[];
.func  (.param .b64 func_retval0) _RNvMs_4lead5watch
(
\t.param .b64 _RNvMs_4lead5watch_param_0
)
;
.global .align 8 .b8 anon_$_eb09_$_0[2] = {1, 2};
.visible .entry ringcall_dispatch(
\t.param .b64 ringcall_dispatch_param_0
)
{
\t.local .align 8 .b8 \t__local_depot0[56];
\t.reg .b32 \t%r<4>;
\t.reg .b64 \t%rd<4>;

\tld.param.b64 \t%rd1, [ringcall_dispatch_param_0];
\tmov.b64 \t%rd3, anon_$_eb09_$_0;
\tmov.u64 %rd3, %clock64;
$L__BB0_2:
\tsub.s64 \t%rd3, %rd1, %rd2;
\tsetp.lt.u64 \t%p1, %rd3, 517;
\t@%p1 bra \t$L__BB0_2;
\t{ // callseq 0, 0
\tcall.uni (retval0), _RNvMs_4lead5watch, (param0);
\t} // callseq 0
\tret;
}
.func  (.param .b64 func_retval0) _RNvMs_4lead5watch(
\t.param .b64 _RNvMs_4lead5watch_param_0
)
{
\t.reg .b64 \t%rd<3>;
\tld.param.b64 \t%rd1, [_RNvMs_4lead5watch_param_0];
\tadd.s64 \t%rd2, %rd1, 8;
\tst.param.b64 \t[func_retval0], %rd2;
\tret;
}
";

    fn changed(from: &str, to: &str) -> Option<String> {
        assert!(BEFORE.contains(from), "{from}");
        difference(BEFORE, &BEFORE.replace(from, to))
    }

    #[test]
    fn a_rename_passes() {
        assert_eq!(difference(BEFORE, BEFORE), None);
        for (from, to) in [
            ("_RNvMs_4lead5watch", "_RNvMs3_6poller4poll"),
            ("anon_$_eb09_$_0", "anon_$_77_$_3"),
            ("$L__BB0_2", "$L__BB7_1"),
            ("__local_depot0", "__local_depot3"),
            ("callseq 0", "callseq 9"),
            ("rustc 1.96.0 (x)", "rustc 1.96.0 (y)"),
        ] {
            assert_eq!(changed(from, to), None, "{from}");
        }
        // Registers that change their numbers consistently.
        let swapped = BEFORE.replace("%rd1", "%rd0").replace("%rd2", "%rd1").replace("%rd0", "%rd2");
        assert_ne!(swapped, BEFORE);
        assert_eq!(difference(BEFORE, &swapped), None);
    }

    #[test]
    fn functions_may_move() {
        let at = BEFORE.rfind(".func").expect("a function");
        let entry = BEFORE.find(".visible").expect("an entry");
        let moved = format!("{}{}{}", &BEFORE[..entry], &BEFORE[at..], &BEFORE[entry..at]);
        assert_eq!(difference(BEFORE, &moved), None);
    }

    #[test]
    fn a_changed_instruction_fails_and_is_named() {
        let why = changed("sub.s64", "add.s64").expect("another instruction");
        for part in [
            "entry `ringcall_dispatch` differs",
            "before, line 25: sub.s64 \t%rd3, %rd1, %rd2;",
            "after, line 25: add.s64 \t%rd3, %rd1, %rd2;",
        ] {
            assert!(why.contains(part), "no `{part}` in\n{why}");
        }
    }

    #[test]
    fn whatever_is_no_name_counts() {
        for (what, from, to) in [
            ("an immediate", "%rd3, 517", "%rd3, 518"),
            ("an immediate of a function that is called", "%rd1, 8;", "%rd1, 16;"),
            ("swapped operands", "sub.s64 \t%rd3, %rd1, %rd2", "sub.s64 \t%rd3, %rd2, %rd1"),
            ("another register", "sub.s64 \t%rd3, %rd1, %rd2", "sub.s64 \t%rd3, %rd1, %rd1"),
            ("a special register", "%clock64", "%globaltimer"),
            ("a fence", "\tret;\n}\n.func", "\tfence.acq_rel.sys;\n\tret;\n}\n.func"),
            ("data", "{1, 2}", "{1, 3}"),
            ("the frame", "[56]", "[64]"),
            ("the number of registers", "%rd<4>", "%rd<5>"),
            ("the architecture", "sm_90\n.address", "sm_80\n.address"),
            ("the entry's name", "ringcall_dispatch", "ringcall_serve"),
            ("what is linked", "ringcall_shared", "ringcall_other"),
            ("the call", "_RNvMs_4lead5watch, (param0)", "ringcall_shared, (param0)"),
        ] {
            assert!(changed(from, to).is_some(), "{what}");
        }
    }

    #[test]
    fn labels_are_told_apart() {
        let two = BEFORE.replace("\tret;\n}\n.func", "$L__BB0_3:\n\tret;\n}\n.func");
        let other = two.replace("bra \t$L__BB0_2", "bra \t$L__BB0_3");
        assert!(difference(&two, &other).is_some());
    }

    #[test]
    fn functions_that_nothing_refers_to_are_compared() {
        let more = |body: &str| format!("{BEFORE}.func _RNvCs_4last()\n{{\n\t{body};\n}}\n");
        assert_eq!(difference(&more("ret"), &more("ret").replace("4last", "5final")), None);
        assert!(difference(&more("ret"), &more("exit")).is_some());
        assert!(difference(BEFORE, &more("ret")).is_some());
    }
}
