from cluster_core.incidents.catalogue import find_findings as find_findings
from cluster_core.incidents.catalogue import find_incidents as find_incidents
from cluster_core.incidents.history import History as History
from cluster_core.incidents.incident import Finding as Finding
from cluster_core.incidents.incident import Incident as Incident
