//! A self-signed certificate for `localhost`, with a P-256 key.

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::PKey;
use openssl::x509::extension::SubjectAlternativeName;
use openssl::x509::{X509, X509NameBuilder};

/// A certificate and its key, as PEM.
pub(super) struct Certificate {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl Certificate {
    /// Makes a certificate that is valid for two days.
    ///
    /// # Errors
    /// OpenSSL's.
    pub(super) fn new() -> Result<Certificate, ErrorStack> {
        let curve = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
        let key = PKey::from_ec_key(EcKey::generate(&curve)?)?;
        let mut name = X509NameBuilder::new()?;
        name.append_entry_by_nid(Nid::COMMONNAME, HOST)?;
        let name = name.build();
        let mut builder = X509::builder()?;
        builder.set_version(2)?;
        builder.set_serial_number(BigNum::from_u32(1)?.to_asn1_integer()?.as_ref())?;
        builder.set_subject_name(&name)?;
        builder.set_issuer_name(&name)?;
        builder.set_not_before(Asn1Time::days_from_now(0)?.as_ref())?;
        builder.set_not_after(Asn1Time::days_from_now(2)?.as_ref())?;
        builder.set_pubkey(&key)?;
        let host =
            SubjectAlternativeName::new().dns(HOST).build(&builder.x509v3_context(None, None))?;
        builder.append_extension(host)?;
        builder.sign(&key, MessageDigest::sha256())?;
        let (certificate, key) = (builder.build().to_pem()?, key.private_key_to_pem_pkcs8()?);
        Ok(Certificate { certificate, key })
    }
}

/// The host that the certificate names.
pub(super) const HOST: &str = "localhost";
