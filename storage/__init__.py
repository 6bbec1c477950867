"""MongoDB: one repository per aggregate, with its indexes beside its queries."""
