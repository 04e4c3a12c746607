//! Lists of jobs.

use crate::Job;

/// An empty list in the same memory, for jobs that borrow other data.
pub fn emptied<'b>(mut jobs: Vec<Job<'_>>) -> Vec<Job<'b>> {
    jobs.clear();
    // Collecting a vector's own iterator into elements of one layout reuses its allocation.
    jobs.into_iter().map(|_| unreachable!("the list is empty")).collect()
}

#[cfg(test)]
mod tests {
    use crate::Iv;

    use super::*;

    #[test]
    fn an_emptied_list_keeps_its_memory() {
        let mut output = [0; 1];
        let mut jobs = Vec::with_capacity(40);
        jobs.push(Job::new(Iv::NONE, &[], &mut output));
        let memory = jobs.as_ptr().addr();
        let again: Vec<Job<'static>> = emptied(jobs);
        assert_eq!((again.len(), again.capacity()), (0, 40));
        assert_eq!(again.as_ptr().addr(), memory);
    }
}
