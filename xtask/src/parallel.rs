//! Parallel map over items, on every core.

use anyhow::{Result, bail};
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Calls `work` with each item, on as many threads as the machine has cores; gives the results in the items' order.
///
/// # Errors
/// The first error in the items' order. After an error no further item is begun.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let queue = Mutex::new(items.iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let one_thread = || {
        let mut done = Vec::new();
        while let Some((index, item)) = next() {
            let result = work(item);
            if result.is_err() {
                while next().is_some() {}
            }
            done.push((index, result));
        }
        done
    };
    let mut all = Vec::new();
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one_thread)).collect();
        for thread in running {
            match thread.join() {
                Ok(done) => all.extend(done),
                Err(_) => bail!("a thread panicked"),
            }
        }
        Ok(())
    })?;
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..50).collect();
        assert_eq!(
            each(&items, |item| Ok(item * 2)).expect("no error"),
            (0..100).step_by(2).collect::<Vec<_>>()
        );
        assert_eq!(each(&[], |item: &usize| Ok(*item)).expect("no error"), Vec::<usize>::new());
    }

    #[test]
    fn an_error_ends_it() {
        let begun = Mutex::new(0);
        let error = each(&[0; 10_000], |_| {
            *begun.lock().expect("no thread panics") += 1;
            bail!("refused") as Result<()>
        });
        assert_eq!(error.expect_err("every item fails").to_string(), "refused");
        assert!(begun.into_inner().expect("no thread panics") < 10_000);
    }
}
