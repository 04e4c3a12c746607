//! Profiles in the files of the AWS command line tool.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use evener_seal::Fault;
use ini::Ini;

use crate::fault::shown;

/// The settings of a profile besides its credentials.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) region: Option<String>,
    pub(crate) endpoint: Option<String>,
}

impl Profile {
    /// Finds the profile `name`, or else that of `AWS_PROFILE`, or else the default one.
    ///
    /// # Errors
    /// [`Fault::Refused`] when a named profile is in neither file, or a file can't be read.
    pub(crate) fn find(name: Option<&str>) -> Result<Profile, Fault> {
        let of_environment = env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
        let named = name.map(str::to_owned).or(of_environment);
        let config = read("AWS_CONFIG_FILE", ".aws/config")?;
        let credentials = read("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")?;
        Profile::in_files(named.as_deref(), &config, &credentials)
    }

    fn in_files(named: Option<&str>, config: &Ini, credentials: &Ini) -> Result<Profile, Fault> {
        let name = named.unwrap_or(USUAL);
        let of_default = || config.section(Some(name)).filter(|_| name == USUAL);
        let found = config.section(Some(format!("profile {name}"))).or_else(of_default);
        // The file of credentials comes first, as for Amazon's own tools.
        let sections = [credentials.section(Some(name)), found];
        if sections == [None; 2] && named.is_some() {
            let reason = format!("there is no profile `{}` in {FILES}", shown(name));
            return Err(Fault::Refused(reason));
        }
        let value = |key| sections.iter().flatten().find_map(|it| it.get(key)).map(str::to_owned);
        Ok(Profile { region: value("region"), endpoint: value("endpoint_url") })
    }
}

/// Reads the file that a variable names, or else one in the home directory. A missing file counts
/// as empty.
fn read(variable: &str, usual: &str) -> Result<Ini, Fault> {
    let named = env::var_os(variable).filter(|name| !name.is_empty()).map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(usual));
    let Some(path) = named.or_else(home) else { return Ok(Ini::new()) };
    let refused = |error: &dyn std::fmt::Display| {
        let reason = shown(&error.to_string());
        Fault::Refused(format!("can't read {}: {reason}", evener_core::shown(&path)))
    };
    match fs::read(&path) {
        Ok(bytes) => {
            let text = str::from_utf8(&bytes).map_err(|error| refused(&error))?;
            Ini::load_from_str(text).map_err(|error| refused(&error))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ini::new()),
        Err(error) => Err(refused(&error)),
    }
}

const FILES: &str = "~/.aws, or in the files of AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE";
const USUAL: &str = "default";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_was_named_must_exist() {
        let config = Ini::load_from_str(
            "[default]\nregion = eu-west-1\n[profile work]\nendpoint_url = http://h:1\n\
             s3 =\n  max_concurrent_requests = 20\n",
        )
        .unwrap();
        let credentials = Ini::load_from_str("[other]\naws_access_key_id = x\n").unwrap();
        let find = |name| Profile::in_files(name, &config, &credentials);
        assert_eq!(find(None).unwrap().region.as_deref(), Some("eu-west-1"));
        assert_eq!(find(Some("work")).unwrap().endpoint.as_deref(), Some("http://h:1"));
        assert_eq!(find(Some("other")).unwrap(), Profile::default());
        assert!(find(Some("none")).is_err());
        let full =
            "[default]\nregion = one\n[profile default]\nregion = two\nendpoint_url = http://h\n";
        let config = Ini::load_from_str(full).unwrap();
        let credentials = Ini::load_from_str("[default]\nendpoint_url = http://i\n").unwrap();
        let both = Profile::in_files(None, &config, &credentials).unwrap();
        assert_eq!(both.region.as_deref(), Some("two"));
        assert_eq!(both.endpoint.as_deref(), Some("http://i"));
        let nothing = Profile::in_files(None, &Ini::new(), &Ini::new());
        assert_eq!(nothing.unwrap(), Profile::default());
    }
}
