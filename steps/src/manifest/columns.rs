//! The kinds of manifest, the columns that they have, and how both are named.

use std::fmt;

/// What a manifest is, as its `#%profile` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A row is a file of one object.
    Object,
    /// A row is an object manifest, and that is one object.
    Batch,
    /// A row is an archive, and that is one object.
    ContainerBatch,
    /// A row is a file, and that is one object.
    SingleFileBatch,
}

/// Where profiles are written, and where they were seen beside it.
const REGISTRIES: [&str; 2] = ["uc3.cdlib.org/registry/ingest/manifest/", "uc3.cdlib.org/registry/mrt/"];

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Object, Kind::Batch, Kind::ContainerBatch, Kind::SingleFileBatch];

    /// The last part of the profile's URI.
    pub fn profile_name(self) -> &'static str {
        match self {
            Kind::Object => "mrt-ingest-manifest",
            Kind::Batch => "mrt-batch-manifest",
            Kind::ContainerBatch => "mrt-container-batch-manifest",
            Kind::SingleFileBatch => "mrt-single-file-batch-manifest",
        }
    }

    /// The profile's URI, as it is written.
    pub fn profile(self) -> String {
        format!("http://{}{}", REGISTRIES[0], self.profile_name())
    }

    pub(super) fn from_profile(uri: &str) -> Option<Self> {
        let uri = uri.to_ascii_lowercase();
        let rest = uri.strip_prefix("http://").or_else(|| uri.strip_prefix("https://"))?;
        let name = REGISTRIES.into_iter().find_map(|registry| rest.strip_prefix(registry))?;
        Kind::ALL.into_iter().find(|kind| kind.profile_name() == name)
    }

    /// The columns of the profile, in its order.
    pub fn columns(self) -> &'static [Column] {
        use Column as C;
        match self {
            Kind::Object => &[C::Url, C::Algorithm, C::Digest, C::Size, C::Modified, C::Name, C::MimeType],
            Kind::Batch | Kind::ContainerBatch | Kind::SingleFileBatch => &[
                C::Url,
                C::Algorithm,
                C::Digest,
                C::Size,
                C::Modified,
                C::Name,
                C::PrimaryId,
                C::LocalId,
                C::Creator,
                C::Title,
                C::Date,
            ],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.profile_name())
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    Url,
    Algorithm,
    Digest,
    Size,
    Modified,
    Name,
    MimeType,
    PrimaryId,
    LocalId,
    Creator,
    Title,
    Date,
    DublinCore(Term),
}

impl Column {
    /// All of them: first those of the profiles, then the optional ones.
    pub fn all() -> impl Iterator<Item = Column> {
        use Column as C;
        let of_profiles = [
            C::Url,
            C::Algorithm,
            C::Digest,
            C::Size,
            C::Modified,
            C::Name,
            C::MimeType,
            C::PrimaryId,
            C::LocalId,
            C::Creator,
            C::Title,
            C::Date,
        ];
        of_profiles.into_iter().chain(Term::ALL.into_iter().map(Column::DublinCore))
    }

    /// The name without a prefix.
    pub fn name(self) -> &'static str {
        match self {
            Column::Url => "fileUrl",
            Column::Algorithm => "hashAlgorithm",
            Column::Digest => "hashValue",
            Column::Size => "fileSize",
            Column::Modified => "fileLastModified",
            Column::Name => "fileName",
            Column::MimeType => "mimeType",
            Column::PrimaryId => "primaryIdentifier",
            Column::LocalId => "localIdentifier",
            Column::Creator => "creator",
            Column::Title => "title",
            Column::Date => "date",
            Column::DublinCore(term) => term.name(),
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Column::Url
            | Column::Algorithm
            | Column::Digest
            | Column::Size
            | Column::Modified
            | Column::Name => "nfo",
            _ => "mrt",
        }
    }

    /// Whether it says something of a file, and not of an object.
    pub(super) fn is_of_a_file(self) -> bool {
        use Column as C;
        matches!(self, C::Url | C::Algorithm | C::Digest | C::Size | C::Modified | C::Name | C::MimeType)
    }

    /// By its name in a `#%fields` line: any case, any prefix or none.
    pub(super) fn from_field(field: &str) -> Option<Self> {
        let name = field.rsplit_once(':').map_or(field, |(_, name)| name).trim();
        Column::all().find(|column| column.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.prefix(), self.name())
    }
}

/// A Dublin Core element that may follow the columns of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Term {
    Contributor,
    Coverage,
    Description,
    Format,
    Language,
    Publisher,
    Relation,
    Rights,
    Source,
    Subject,
    Type,
    ResourceType,
}

impl Term {
    /// In the order in which they follow when no `#%fields` line says another.
    pub const ALL: [Term; 12] = [
        Term::Contributor,
        Term::Coverage,
        Term::Description,
        Term::Format,
        Term::Language,
        Term::Publisher,
        Term::Relation,
        Term::Rights,
        Term::Source,
        Term::Subject,
        Term::Type,
        Term::ResourceType,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Term::Contributor => "contributor",
            Term::Coverage => "coverage",
            Term::Description => "description",
            Term::Format => "format",
            Term::Language => "language",
            Term::Publisher => "publisher",
            Term::Relation => "relation",
            Term::Rights => "rights",
            Term::Source => "source",
            Term::Subject => "subject",
            Term::Type => "type",
            Term::ResourceType => "resourceType",
        }
    }
}
