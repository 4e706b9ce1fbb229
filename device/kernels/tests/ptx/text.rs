//! Functions of a PTX text, reduced to what they do to memory, to other threads and to their caller.
//!
//! Instructions that only compute are followed and left out: an operand is shown as what it is (`arg0+8`, `16`) where that
//! is known, or else as `v0`, `v1`, … in the order of appearance. Every other instruction is shown, known or not.

use std::collections::BTreeMap;

/// Instructions that only compute or branch.
const COMPUTING: &[&str] = &[
    "add", "and", "bra", "cvt", "cvta", "mad", "max", "min", "mov", "mul", "or", "ret", "selp", "setp",
    "shl", "shr", "sub",
];

/// The rest of a function.
pub(crate) struct Body {
    /// The instructions in the order of the text, and last what is returned.
    pub(crate) lines: Vec<String>,
    /// Which statements of the text access memory.
    memory: Vec<usize>,
}

impl Body {
    /// Whether the instructions that access memory stand side by side, with not even arithmetic between them.
    pub(crate) fn memory_is_adjacent(&self) -> bool {
        self.memory.windows(2).all(|pair| pair[1] == pair[0] + 1)
    }
}

/// The visible functions, by name.
pub(crate) fn bodies(ptx: &str) -> BTreeMap<String, Body> {
    let mut found = BTreeMap::new();
    let mut name = None;
    let mut body: Option<String> = None;
    for line in ptx.lines() {
        let line = line.split("//").next().unwrap_or_default();
        if let Some(header) = line.strip_prefix(".visible .func ") {
            // `(.param .b64 func_retval0) probe_x(`, or without what it returns.
            name = header.trim_end_matches(['(', ')']).rsplit([' ', ')']).next().map(str::to_owned);
        } else if line == "{" {
            body = Some(String::new());
        } else if line == "}" {
            if let (Some(name), Some(text)) = (name.take(), body.take()) {
                let reduced = reduce(&name, &text);
                assert!(found.insert(name.clone(), reduced).is_none(), "{name} is there twice");
            }
        } else if let Some(body) = &mut body {
            body.push_str(line);
            body.push('\n');
        }
    }
    found
}

/// A label or an instruction.
enum Statement {
    Label,
    Instruction { guard: String, mnemonic: String, operands: Vec<String> },
}

fn statements(text: &str) -> Vec<Statement> {
    let mut found = Vec::new();
    for part in text.split(';') {
        // Braces around a group of statements; those of a vector never come first.
        let mut part =
            part.trim_start_matches(|c: char| c.is_whitespace() || c == '{' || c == '}').trim_end();
        while let Some((label, rest)) = part.split_once(':').filter(|(label, _)| label.starts_with('$')) {
            assert!(!label.contains(char::is_whitespace), "{label}");
            found.push(Statement::Label);
            part = rest.trim_start();
        }
        // Declarations of registers and parameters, and the signature of an indirect call.
        if part.is_empty() || part.starts_with('.') || part.contains(".callprototype") {
            continue;
        }
        let (guard, part) = match part.strip_prefix('@').and_then(|rest| rest.split_once(char::is_whitespace))
        {
            Some((guard, rest)) => (format!("@{guard} "), rest.trim_start()),
            None => (String::new(), part),
        };
        let (mnemonic, operands) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        found.push(Statement::Instruction {
            guard,
            mnemonic: mnemonic.to_owned(),
            operands: split(operands),
        });
    }
    found
}

/// Operands, at commas outside of braces and parentheses.
fn split(text: &str) -> Vec<String> {
    let (mut operands, mut operand, mut depth) = (Vec::new(), String::new(), 0);
    for c in text.chars() {
        match c {
            '{' | '(' => depth += 1,
            '}' | ')' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            operands.push(operand.trim().to_owned());
            operand.clear();
        } else {
            operand.push(c);
        }
    }
    operands.push(operand.trim().to_owned());
    operands.retain(|operand| !operand.is_empty());
    operands
}

fn reduce(name: &str, text: &str) -> Body {
    let statements = statements(text);
    let mut values = Values::of(name, &statements);
    let (mut lines, mut memory, mut returned, mut passed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // What follows a trap up to the next label does not run. A block that begins with one is the rest of a
    // check, except where the whole function is that.
    let (mut dead, mut begins, mut entry) = (false, false, true);
    for (at, statement) in statements.iter().enumerate() {
        let Statement::Instruction { guard, mnemonic, operands } = statement else {
            (dead, begins, entry) = (false, true, false);
            continue;
        };
        let first = std::mem::take(&mut begins);
        if dead {
            continue;
        }
        let root = mnemonic.split('.').next().unwrap_or_default();
        if root == "trap" && guard.is_empty() {
            dead = true;
            if first && !entry {
                continue;
            }
        }
        if mnemonic.starts_with("ld.param") {
            continue;
        }
        if mnemonic.starts_with("st.param") {
            let parameter = operands[0].trim_matches(['[', ']']);
            let list = if parameter.starts_with("func_retval") { &mut returned } else { &mut passed };
            list.push((number_and_offset(parameter), operands[1].clone()));
            continue;
        }
        // Reading a special register is what some primitives are for.
        let special = root == "mov" && operands.get(1).is_some_and(|source| is_special(source));
        if COMPUTING.contains(&root) && !special {
            continue;
        }
        if matches!(root, "ld" | "st" | "atom" | "red") {
            memory.push(at);
        }
        let shown: Vec<_> = if root == "call" {
            passed.sort();
            let arguments: Vec<_> = passed.drain(..).map(|(_, value)| values.show(&value)).collect();
            let target = operands.iter().find(|operand| !operand.starts_with('(')).map_or("", String::as_str);
            vec![values.show(target), format!("({})", arguments.join(", "))]
        } else {
            operands.iter().map(|operand| values.show(operand)).collect()
        };
        // Guards of our own are names; those of the compiler are registers, whose numbers mean nothing.
        let guard = if guard.contains('%') { "@ " } else { guard };
        lines.push(format!("{guard}{mnemonic} {}", shown.join(", ")).trim_end().to_owned());
    }
    returned.sort();
    if !returned.is_empty() {
        let shown: Vec<_> = returned.iter().map(|(_, value)| values.show(value)).collect();
        lines.push(format!("return {}", shown.join(", ")));
    }
    Body { lines, memory }
}

/// Where a parameter, or a part of it, lies: its number, and its offset.
fn number_and_offset(operand: &str) -> (usize, usize) {
    let (name, offset) = operand.split_once('+').unwrap_or((operand, "0"));
    let number = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    (number.parse().unwrap_or(0), offset.parse().unwrap_or(0))
}

/// A register of the machine's, as opposed to a numbered one of the function's.
fn is_special(operand: &str) -> bool {
    let Some(name) = operand.strip_prefix('%') else { return false };
    !["r", "rd", "rs", "p"].contains(&name.trim_end_matches(|c: char| c.is_ascii_digit()))
        && !name.starts_with("SP")
}

/// What registers hold, as far as it can be said in a word.
struct Values {
    known: BTreeMap<String, String>,
    numbers: BTreeMap<String, usize>,
}

impl Values {
    fn of(name: &str, statements: &[Statement]) -> Self {
        let mut written = BTreeMap::<&str, usize>::new();
        let instructions = statements.iter().filter_map(|statement| match statement {
            Statement::Instruction { mnemonic, operands, .. } => {
                Some((mnemonic.as_str(), operands.as_slice()))
            }
            Statement::Label => None,
        });
        for (_, operands) in instructions.clone() {
            // One operand alone is read.
            let target = operands.first().filter(|_| operands.len() > 1).map_or("", String::as_str);
            for register in target.split(['{', '}', ',', ' ']) {
                *written.entry(register).or_default() += 1;
            }
        }
        let mut values = Self { known: BTreeMap::new(), numbers: BTreeMap::new() };
        for (mnemonic, operands) in instructions {
            let [target, source, rest @ ..] = operands else { continue };
            // A register that is written by several instructions holds whatever the way here put there.
            if !target.starts_with('%') || written[target.as_str()] > 1 {
                continue;
            }
            let value = match (mnemonic.split('.').next(), rest) {
                (Some("ld"), []) if mnemonic.starts_with("ld.param") => {
                    let parameter = source.trim_matches(['[', ']']);
                    match parameter.strip_prefix(&format!("{name}_param_")) {
                        Some(number) => format!("arg{number}"),
                        None => "called".to_owned(),
                    }
                }
                (Some("mov" | "cvta"), []) if !is_special(source) => {
                    if source.starts_with("__local_depot") {
                        "stack".to_owned()
                    } else {
                        values.resolve(source)
                    }
                }
                (Some("add"), [addend]) if addend.parse::<u64>().is_ok() => {
                    plus(&values.resolve(source), addend)
                }
                _ => continue,
            };
            if !value.starts_with('%') {
                values.known.insert(target.clone(), value);
            }
        }
        values
    }

    fn resolve(&self, operand: &str) -> String {
        self.known.get(operand).cloned().unwrap_or_else(|| operand.to_owned())
    }

    /// An operand as it is shown; vectors and addresses, part by part.
    fn show(&mut self, operand: &str) -> String {
        for (open, close) in [('[', ']'), ('{', '}')] {
            if let Some(inner) = operand.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
                let parts: Vec<_> = split(inner).iter().map(|part| self.show(part)).collect();
                return format!("{open}{}{close}", parts.join(", "));
            }
        }
        if let Some((base, offset)) = operand.split_once('+') {
            return plus(&self.show(base), offset);
        }
        let value = self.resolve(operand);
        if !value.starts_with('%') || is_special(&value) {
            return value;
        }
        let next = self.numbers.len();
        format!("v{}", self.numbers.entry(value).or_insert(next))
    }
}

/// An address and what is added to it.
fn plus(base: &str, addend: &str) -> String {
    let (name, so_far) = base.split_once('+').unwrap_or((base, "0"));
    match (so_far.parse::<u64>(), addend.parse::<u64>()) {
        (Ok(a), Ok(b)) if a + b == 0 => name.to_owned(),
        (Ok(a), Ok(b)) => format!("{name}+{}", a + b),
        _ => format!("{base}+{addend}"),
    }
}
