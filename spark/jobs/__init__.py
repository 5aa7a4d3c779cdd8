"""One module for each job: which days, what is read, which transform, what is written."""

from spark.jobs import archive, bulk_load, capacity, restore, tz_audit, usage
from spark.jobs.audit_books import AUDIT_BOOKS
from spark.jobs.job import Job

JOBS: tuple[Job, ...] = (AUDIT_BOOKS, usage.JOB, capacity.JOB, archive.JOB, restore.JOB, bulk_load.JOB, tz_audit.JOB)
