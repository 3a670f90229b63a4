//! From a study to a run.

use crate::{Error, Outcome, Profile, Study};

pub(crate) fn measure(_study: &Study, _profile: &Profile) -> Result<Outcome, Error> {
    unimplemented!()
}
